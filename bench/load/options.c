#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "wire.h"

static double number_from(const struct option *option, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (*end || end == text || value < option->low || value > option->high)
        fail("%s %s: from %g to %g", option->name, text, option->low, option->high);
    return value;
}

void read_words(int count, char **words, const struct option *options, const char *source) {
    for (int i = 1; i < count; i += 2) {
        const char *name = words[i], *text = i + 1 < count ? words[i + 1] : "";
        const struct option *option = options;
        while (option->name && strcmp(name, option->name)) option++;
        if (option->whole) *option->whole = (int)number_from(option, text);
        else if (option->real) *option->real = number_from(option, text);
        else if (option->text && *text && strlen(text) <= option->high) *option->text = text;
        else fail("%s %s is no option: see the head of %s", name, text, source);
    }
}
