/* load: asks a Kafka-protocol broker the same thing as often as it will answer, and tells how often that was.
 *
 *   load --port 9092 --api offset-commit --connections 16 --window 1 --partitions 1 --seconds 5
 *
 * One thread and one epoll, so that on a machine of two cores the broker has the other. Each connection keeps
 * `--window` requests in flight and works through the groups connection, connection + connections, ... Requests are
 * one template per connection in which only correlation id, group and offsets are patched. Every answer is read
 * whole: a wrong correlation id ends the run, every partition's error code is counted.
 *
 * Latencies go into a histogram of 64 steps to each power of two (1.6 % wide), in nanoseconds.
 * Prints one JSON object on standard output; anything else is an error on standard error and status 1. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define CLIENT_ID "headgate-load"
#define GROUP_FORMAT "load-%010u"

enum { OFFSET_COMMIT = 8, OFFSET_FETCH = 9 };
enum { GROUP_DIGITS = 10, STEPS_BITS = 6, STEPS = 1 << STEPS_BITS, BUCKETS = 64 * STEPS, ERROR_CODES = 512 };

struct options {
    int port, api_key, api_version, connections, window, partitions, groups;
    double seconds, warm_up_seconds;
    const char *topic;
};

struct connection {
    int socket;
    uint32_t group;
    uint32_t next_correlation, awaited_correlation;
    uint64_t *sent_at_ns; /* by correlation id modulo the window */
    uint8_t *in;
    size_t in_used, in_size;
    uint8_t *out; /* what the socket has not taken yet */
    size_t out_used, out_size;
    bool waits_for_room;
};

/* One request with holes: where in its bytes the changing fields are. */
struct template {
    uint8_t *bytes;
    size_t size, correlation_at, group_at, offsets_at, offsets_stride;
};

struct tally {
    uint64_t answers, latency[BUCKETS], slowest_ns, errors[ERROR_CODES], missing;
    bool counting;
};

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *room_for(size_t bytes) {
    void *room = calloc(1, bytes);
    if (!room) fail("no memory for %zu bytes", bytes);
    return room;
}

/* ---- writing: big-endian numbers, unsigned varints, compact strings ---------------------------------------- */

static uint8_t *put_number(uint8_t *at, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) at[i] = (uint8_t)value;
    return at + bytes;
}

static uint8_t *put_varint(uint8_t *at, uint32_t value) {
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

static uint8_t *put_text(uint8_t *at, const char *text) {
    size_t length = strlen(text);
    at = put_varint(at, (uint32_t)length + 1);
    memcpy(at, text, length);
    return at + length;
}

static uint8_t *put_group(struct template *t, uint8_t *at) {
    char group[32];
    snprintf(group, sizeof group, GROUP_FORMAT, 0u);
    at = put_text(at, group);
    t->group_at = (size_t)(at - t->bytes) - GROUP_DIGITS;
    return at;
}

/* OffsetCommit 8: a commit without a member, as an administrator or a consumer without a group makes it. */
static uint8_t *put_offset_commit(struct template *t, uint8_t *at, const struct options *o) {
    at = put_group(t, at);
    at = put_number(at, 0xffffffff, 4); /* generation -1 */
    at = put_varint(at, 1);             /* member id "" */
    at = put_varint(at, 0);             /* group instance id null */
    at = put_varint(at, 2);             /* one topic */
    at = put_text(at, o->topic);
    at = put_varint(at, (uint32_t)o->partitions + 1);
    t->offsets_at = (size_t)(at - t->bytes) + 4;
    for (int partition = 0; partition < o->partitions; partition++) {
        uint8_t *begin = at;
        at = put_number(at, (uint32_t)partition, 4);
        at = put_number(at, 0, 8);          /* offset, patched */
        at = put_number(at, 0xffffffff, 4); /* leader epoch -1 */
        at = put_varint(at, 1);             /* metadata "" */
        at = put_varint(at, 0);             /* tags */
        t->offsets_stride = (size_t)(at - begin);
    }
    at = put_varint(at, 0);    /* topic's tags */
    return put_varint(at, 0);  /* tags */
}

/* OffsetFetch 6-8: up to 7 one group, from 8 an array of groups. */
static uint8_t *put_offset_fetch(struct template *t, uint8_t *at, const struct options *o) {
    bool batched = o->api_version >= 8;
    if (batched) at = put_varint(at, 2);
    at = put_group(t, at);
    at = put_varint(at, 2);
    at = put_text(at, o->topic);
    at = put_varint(at, (uint32_t)o->partitions + 1);
    for (int partition = 0; partition < o->partitions; partition++) at = put_number(at, (uint32_t)partition, 4);
    at = put_varint(at, 0);                           /* topic's tags */
    if (batched) at = put_varint(at, 0);              /* group's tags */
    if (o->api_version >= 7) at = put_number(at, 0, 1); /* require stable: no */
    return put_varint(at, 0);
}

static struct template new_template(const struct options *o) {
    struct template t = {.bytes = room_for(512 + strlen(o->topic) + (size_t)o->partitions * 18)};
    uint8_t *at = t.bytes + 4;
    at = put_number(at, (uint64_t)o->api_key, 2);
    at = put_number(at, (uint64_t)o->api_version, 2);
    t.correlation_at = (size_t)(at - t.bytes);
    at = put_number(at, 0, 4);
    at = put_number(at, strlen(CLIENT_ID), 2); /* the header's client id is an old-style string */
    memcpy(at, CLIENT_ID, strlen(CLIENT_ID));
    at += strlen(CLIENT_ID);
    at = put_varint(at, 0);
    at = o->api_key == OFFSET_COMMIT ? put_offset_commit(&t, at, o) : put_offset_fetch(&t, at, o);
    t.size = (size_t)(at - t.bytes);
    put_number(t.bytes, t.size - 4, 4);
    return t;
}

/* ---- reading: a cursor that fails the run when an answer is shorter than it says ----------------------------- */

struct cursor {
    const uint8_t *at, *end;
};

static void need(struct cursor *c, size_t bytes) {
    if ((size_t)(c->end - c->at) < bytes) fail("an answer ends too early");
}

static uint64_t take_number(struct cursor *c, int bytes) {
    uint64_t value = 0;
    need(c, (size_t)bytes);
    while (bytes--) value = value << 8 | *c->at++;
    return value;
}

static uint32_t take_varint(struct cursor *c) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = (uint8_t)take_number(c, 1);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    fail("a number in an answer never ends");
    return 0;
}

static void skip_text(struct cursor *c) {
    uint32_t length = take_varint(c);
    if (length > 1) {
        need(c, length - 1);
        c->at += length - 1;
    }
}

static void skip_tags(struct cursor *c) {
    for (uint32_t tags = take_varint(c); tags; tags--) {
        take_varint(c);
        uint32_t bytes = take_varint(c);
        need(c, bytes);
        c->at += bytes;
    }
}

/* Errors are kept one up, so that UNKNOWN_SERVER_ERROR, -1, has a place too. */
static void count_error(struct tally *tally, uint64_t wire) {
    int code = (int16_t)wire;
    if (code < -1 || code + 1 >= ERROR_CODES) fail("error code %d is none of Kafka's", code);
    if (code && tally->counting) tally->errors[code + 1]++;
}

static uint32_t take_array(struct cursor *c) {
    uint32_t count = take_varint(c);
    return count ? count - 1 : 0;
}

/* Reads topics and their partitions; returns how many partitions were answered. */
static uint32_t take_partitions(struct cursor *c, const struct options *o, struct tally *tally) {
    uint32_t answered = 0;
    for (uint32_t topics = take_array(c); topics; topics--) {
        skip_text(c);
        for (uint32_t partitions = take_array(c); partitions; partitions--, answered++) {
            take_number(c, 4);
            if (o->api_key == OFFSET_FETCH) {
                if ((int64_t)take_number(c, 8) < 0 && tally->counting) tally->missing++;
                take_number(c, 4);
                skip_text(c);
            }
            count_error(tally, take_number(c, 2));
            skip_tags(c);
        }
        skip_tags(c);
    }
    return answered;
}

static void read_answer(struct cursor c, const struct options *o, struct tally *tally) {
    uint32_t answered = 0;
    bool batched = o->api_key == OFFSET_FETCH && o->api_version >= 8;
    skip_tags(&c);
    take_number(&c, 4); /* throttle time */
    for (uint32_t groups = batched ? take_array(&c) : 1; groups; groups--) {
        if (batched) skip_text(&c);
        answered += take_partitions(&c, o, tally);
        if (o->api_key == OFFSET_FETCH) count_error(tally, take_number(&c, 2));
        if (batched) skip_tags(&c);
    }
    skip_tags(&c);
    if (c.at != c.end) fail("an answer is %td bytes longer than its fields", c.end - c.at);
    if (tally->counting && answered < (uint32_t)o->partitions) tally->missing += (uint32_t)o->partitions - answered;
}

/* ---- the histogram ----------------------------------------------------------------------------------------- */

static unsigned bucket_of(uint64_t ns) {
    if (ns < STEPS) return (unsigned)ns;
    unsigned power = 63 - (unsigned)__builtin_clzll(ns), shift = power - STEPS_BITS;
    return (shift + 1) * STEPS + (unsigned)((ns >> shift) - STEPS);
}

static double bucket_ms(unsigned bucket) {
    if (bucket < STEPS) return bucket / 1e6;
    unsigned shift = bucket / STEPS - 1;
    return ((double)(STEPS + bucket % STEPS) + 0.5) * (double)(1ull << shift) / 1e6;
}

static double percentile_ms(const struct tally *tally, double share) {
    uint64_t wanted = (uint64_t)((double)tally->answers * share), seen = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++)
        if ((seen += tally->latency[bucket]) > wanted) return bucket_ms(bucket);
    return (double)tally->slowest_ns / 1e6;
}

/* ---- the connections --------------------------------------------------------------------------------------- */

static int connect_to(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof to)) fail("port %d: %s", port, strerror(errno));
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (fcntl(s, F_SETFL, O_NONBLOCK)) fail("a socket that may block: %s", strerror(errno));
    return s;
}

static struct connection *open_connections(const struct options *o, int epoll, size_t request_size) {
    struct connection *all = room_for(sizeof *all * (size_t)o->connections);
    for (int i = 0; i < o->connections; i++) {
        struct connection *c = &all[i];
        c->socket = connect_to(o->port);
        c->group = (uint32_t)(i % o->groups);
        c->sent_at_ns = room_for(sizeof *c->sent_at_ns * (size_t)o->window);
        c->in_size = 64 * 1024;
        c->in = room_for(c->in_size);
        c->out_size = request_size * (size_t)o->window;
        c->out = room_for(c->out_size);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->socket, &event)) fail("epoll: %s", strerror(errno));
    }
    return all;
}

/* Writes what is waiting; asks epoll to say when there is room for the rest. */
static void flush(struct connection *c, int epoll) {
    size_t written = 0;
    while (written < c->out_used) {
        ssize_t n = send(c->socket, c->out + written, c->out_used - written, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) fail("the broker took no more: %s", strerror(errno));
        written += (size_t)n;
    }
    memmove(c->out, c->out + written, c->out_used -= written);
    bool waits = c->out_used > 0;
    if (waits != c->waits_for_room) {
        struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.ptr = c};
        if (epoll_ctl(epoll, EPOLL_CTL_MOD, c->socket, &event)) fail("epoll: %s", strerror(errno));
        c->waits_for_room = waits;
    }
}

/* Fills the window: as many requests as are free, patched into one stretch of bytes. */
static void ask(struct connection *c, struct template *t, const struct options *o, uint64_t *offset) {
    char digits[GROUP_DIGITS + 1];
    while (c->next_correlation - c->awaited_correlation < (uint32_t)o->window) {
        uint8_t *request = c->out + c->out_used;
        memcpy(request, t->bytes, t->size);
        put_number(request + t->correlation_at, c->next_correlation, 4);
        snprintf(digits, sizeof digits, "%010u", c->group);
        memcpy(request + t->group_at, digits, GROUP_DIGITS);
        if (t->offsets_stride) {
            uint8_t *at = request + t->offsets_at;
            for (int i = 0; i < o->partitions; i++, at += t->offsets_stride) put_number(at, *offset, 8);
            ++*offset;
        }
        c->out_used += t->size;
        c->sent_at_ns[c->next_correlation++ % (uint32_t)o->window] = now_ns();
        c->group = (c->group + (uint32_t)o->connections) % (uint32_t)o->groups;
    }
}

static void note_answer(struct connection *c, const uint8_t *frame, size_t size, const struct options *o,
                        struct tally *tally) {
    struct cursor cursor = {frame, frame + size};
    uint32_t correlation = (uint32_t)take_number(&cursor, 4);
    if (correlation != c->awaited_correlation)
        fail("answer %u came where %u was awaited", correlation, c->awaited_correlation);
    uint64_t took = now_ns() - c->sent_at_ns[c->awaited_correlation++ % (uint32_t)o->window];
    read_answer(cursor, o, tally);
    if (!tally->counting) return;
    tally->answers++;
    tally->latency[bucket_of(took)]++;
    if (took > tally->slowest_ns) tally->slowest_ns = took;
}

/* Reads what has come and notes every whole answer. */
static void listen_to(struct connection *c, const struct options *o, struct tally *tally) {
    ssize_t n = read(c->socket, c->in + c->in_used, c->in_size - c->in_used);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) fail("the broker closed a connection%s%s", n ? ": " : "", n ? strerror(errno) : "");
    c->in_used += (size_t)n;
    size_t at = 0;
    while (c->in_used - at >= 4) {
        struct cursor head = {c->in + at, c->in + at + 4};
        size_t size = (size_t)take_number(&head, 4);
        if (size + 4 > c->in_size) {
            if (size > (1u << 30)) fail("an answer of %zu bytes", size);
            c->in = realloc(c->in, c->in_size = 2 * (size + 4));
            if (!c->in) fail("no memory for an answer of %zu bytes", size);
        }
        if (c->in_used - at - 4 < size) break;
        note_answer(c, c->in + at + 4, size, o, tally);
        at += size + 4;
    }
    memmove(c->in, c->in + at, c->in_used -= at);
}

static double run(const struct options *o, struct tally *tally) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct template t = new_template(o);
    struct connection *all = open_connections(o, epoll, t.size);
    uint64_t offset = 1, begin = now_ns();
    uint64_t count_from = begin + (uint64_t)(o->warm_up_seconds * 1e9);
    uint64_t end = count_from + (uint64_t)(o->seconds * 1e9), now;
    for (int i = 0; i < o->connections; i++) {
        ask(&all[i], &t, o, &offset);
        flush(&all[i], epoll);
    }
    while ((now = now_ns()) < end) {
        struct epoll_event ready[256];
        if (!tally->counting && now >= count_from) {
            tally->counting = true;
            count_from = now;
        }
        int events = epoll_wait(epoll, ready, 256, 50);
        for (int i = 0; i < events; i++) {
            struct connection *c = ready[i].data.ptr;
            if (ready[i].events & ~(uint32_t)EPOLLOUT) listen_to(c, o, tally);
            ask(c, &t, o, &offset);
            flush(c, epoll);
        }
    }
    return (double)(now - count_from) / 1e9;
}

/* ---- the command line -------------------------------------------------------------------------------------- */

static void print_result(const struct options *o, const struct tally *tally, double seconds) {
    double requests = (double)tally->answers / seconds;
    printf("{\"requests\": %llu, \"seconds\": %.3f, \"requests_per_s\": %.1f, \"offsets_per_s\": %.1f,",
           (unsigned long long)tally->answers, seconds, requests, requests * o->partitions);
    printf(" \"p50_ms\": %.4f, \"p90_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f,",
           percentile_ms(tally, .5), percentile_ms(tally, .9), percentile_ms(tally, .99),
           percentile_ms(tally, .999), (double)tally->slowest_ns / 1e6);
    printf(" \"missing\": %llu, \"errors\": {", (unsigned long long)tally->missing);
    const char *comma = "";
    for (int code = 0; code < ERROR_CODES; code++)
        if (tally->errors[code]) {
            printf("%s\"%d\": %llu", comma, code - 1, (unsigned long long)tally->errors[code]);
            comma = ", ";
        }
    puts("}}");
}

static double number(const char *name, const char *text, double low, double high) {
    char *end;
    double value = strtod(text, &end);
    if (*end || end == text || value < low || value > high) fail("%s %s: from %g to %g", name, text, low, high);
    return value;
}

static struct options read_options(int count, char **words) {
    struct options o = {.api_key = OFFSET_COMMIT, .connections = 16, .window = 1, .partitions = 1,
                        .seconds = 5, .topic = "load"};
    for (int i = 1; i < count; i += 2) {
        const char *name = words[i], *text = i + 1 < count ? words[i + 1] : "";
        if (!strcmp(name, "--port")) o.port = (int)number(name, text, 1, 65535);
        else if (!strcmp(name, "--api") && !strcmp(text, "offset-commit")) o.api_key = OFFSET_COMMIT;
        else if (!strcmp(name, "--api") && !strcmp(text, "offset-fetch")) o.api_key = OFFSET_FETCH;
        else if (!strcmp(name, "--api-version")) o.api_version = (int)number(name, text, 6, 8);
        else if (!strcmp(name, "--connections")) o.connections = (int)number(name, text, 1, 10000);
        else if (!strcmp(name, "--window")) o.window = (int)number(name, text, 1, 10000);
        else if (!strcmp(name, "--partitions")) o.partitions = (int)number(name, text, 1, 100000);
        else if (!strcmp(name, "--groups")) o.groups = (int)number(name, text, 1, 1e9);
        else if (!strcmp(name, "--seconds")) o.seconds = number(name, text, 0.01, 3600);
        else if (!strcmp(name, "--warm-up")) o.warm_up_seconds = number(name, text, 0, 3600);
        else if (!strcmp(name, "--topic") && *text) o.topic = text;
        else fail("%s %s is no option: see the head of load.c", name, text);
    }
    if (!o.port) fail("--port is needed");
    if (!o.groups) o.groups = o.connections;
    if (!o.api_version) o.api_version = 8;
    if (o.api_key == OFFSET_COMMIT && o.api_version != 8) fail("OffsetCommit is spoken in version 8 only");
    return o;
}

int main(int count, char **words) {
    static struct tally tally;
    struct options o = read_options(count, words);
    double seconds = run(&o, &tally);
    if (!tally.answers) fail("no answer in %g s", o.seconds);
    print_result(&o, &tally, seconds);
    return 0;
}
