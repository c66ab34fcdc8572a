/* options: what the command line says, as pairs of `--name value`. */
#ifndef HEADGATE_OPTIONS_H
#define HEADGATE_OPTIONS_H

/* One option: where its value goes, which is just one of `whole`, `real` and `text`, and what the value may be. */
struct option {
    const char *name;
    int *whole;
    double *real;
    const char **text;
    double low, high; /* of a number; of a text that is not to be empty, `high` is the longest */
};

/* Reads them all; the run fails at a word that is no option, and sends whoever wrote it to the head of `source`. */
void read_words(int count, char **words, const struct option *options, const char *source);

#endif
