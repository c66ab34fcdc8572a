/* load: asks a Kafka-protocol broker the same thing as often as it will answer, and tells how often that was.
 *
 *   load --port 9092 --api offset-commit --connections 16 --window 1 --partitions 1 --seconds 5
 *
 * `--rounds 3` asks about every group three times before the warm-up begins. `--api` is offset-commit, offset-fetch, or in-turn: a commit and a fetch of the same group, over and over, so that
 * no fetch finds what the last one found.
 *
 * One thread and one epoll, so that on a machine of two cores the broker has the other. Each connection keeps
 * `--window` requests in flight and works through the groups connection, connection + connections, ... Requests are
 * one template per connection in which only correlation id, group and offsets are patched. Every answer is read
 * whole: a wrong correlation id ends the run, every partition's error code is counted.
 *
 * Prints one JSON object on standard output; anything else is an error on standard error and status 1. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "link.h"
#include "options.h"
#include "tally.h"
#include "wire.h"

#define GROUP_FORMAT "load-%010u"

enum { OFFSET_COMMIT = 8, OFFSET_FETCH = 9, IN_TURN = -1 };
enum { GROUP_DIGITS = 10 };

struct options {
    int port, api_key, api_version, connections, window, partitions, groups, rounds;
    double seconds, warm_up_seconds;
    const char *topic;
};

struct asking;

struct connection {
    struct link link;
    struct asking *asking;
    uint32_t group;
};

/* One request with holes: where in its bytes the changing fields are. */
struct template {
    uint8_t *bytes;
    size_t size, group_at, offsets_at, offsets_stride;
};

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
    uint8_t *at = put_header(t.bytes, o->api_key, o->api_version);
    at = o->api_key == OFFSET_COMMIT ? put_offset_commit(&t, at, o) : put_offset_fetch(&t, at, o);
    t.size = (size_t)(at - t.bytes);
    return t;
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
            note_error(tally, take_number(c, 2));
            skip_tags(c);
        }
        skip_tags(c);
    }
    return answered;
}

/* What a connection asks in turn: one thing over and over, or a commit, a fetch, a commit ... */
struct asking {
    struct options o[2];
    struct template t[2];
    unsigned count;
    struct tally *tally;
    uint64_t offset, answers;
};

static struct asking new_asking(const struct options *o, struct tally *tally) {
    struct asking asking = {.o = {*o, *o}, .count = 1, .tally = tally, .offset = 1};
    if (o->api_key == IN_TURN) {
        asking.count = 2;
        asking.o[0].api_key = OFFSET_COMMIT;
        asking.o[1].api_key = OFFSET_FETCH;
    }
    for (unsigned i = 0; i < asking.count; i++) asking.t[i] = new_template(&asking.o[i]);
    return asking;
}

static void take_answer(void *context, struct cursor c, uint64_t took_ns) {
    const struct connection *connection = context;
    struct asking *asking = connection->asking;
    const struct options *o = &asking->o[(connection->link.awaited_correlation - 1) % asking->count];
    struct tally *tally = asking->tally;
    uint32_t answered = 0;
    bool batched = o->api_key == OFFSET_FETCH && o->api_version >= 8;
    skip_tags(&c);
    take_number(&c, 4); /* throttle time */
    for (uint32_t groups = batched ? take_array(&c) : 1; groups; groups--) {
        if (batched) skip_text(&c);
        answered += take_partitions(&c, o, tally);
        if (o->api_key == OFFSET_FETCH) note_error(tally, take_number(&c, 2));
        if (batched) skip_tags(&c);
    }
    skip_tags(&c);
    if (c.at != c.end) fail("an answer is %td bytes longer than its fields", c.end - c.at);
    if (tally->counting && answered < (uint32_t)o->partitions) tally->missing += (uint32_t)o->partitions - answered;
    asking->answers++;
    note_latency(tally, took_ns);
}

/* ---- the connections --------------------------------------------------------------------------------------- */

static struct connection *open_connections(const struct options *o, struct asking *asking, int epoll) {
    struct connection *all = room_for(sizeof *all * (size_t)o->connections);
    for (int i = 0; i < o->connections; i++) {
        all[i].asking = asking;
        all[i].group = (uint32_t)(i % o->groups);
        open_link(&all[i].link, epoll, o->port, (uint32_t)o->window, &all[i]);
    }
    return all;
}

/* Fills the window: as many requests as are free, patched into one stretch of bytes. */
static void ask(struct connection *c) {
    struct asking *asking = c->asking;
    char digits[GROUP_DIGITS + 1];
    while (is_window_open(&c->link)) {
        unsigned turn = c->link.next_correlation % asking->count;
        const struct template *t = &asking->t[turn];
        const struct options *o = &asking->o[turn];
        uint8_t *request = request_room(&c->link, t->size);
        memcpy(request, t->bytes, t->size);
        snprintf(digits, sizeof digits, "%010u", c->group);
        memcpy(request + t->group_at, digits, GROUP_DIGITS);
        if (t->offsets_stride) {
            uint8_t *at = request + t->offsets_at;
            for (int i = 0; i < o->partitions; i++, at += t->offsets_stride) put_number(at, asking->offset, 8);
            asking->offset++;
        }
        post(&c->link, t->size);
        if (turn + 1 == asking->count) c->group = (c->group + (uint32_t)o->connections) % (uint32_t)o->groups;
    }
    flush(&c->link);
}

static void serve(void *owner, bool has_come) {
    struct connection *c = owner;
    if (has_come) receive(&c->link, take_answer, c);
    ask(c);
}

static double run(const struct options *o, struct tally *tally) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct asking asking = new_asking(o, tally);
    struct connection *all = open_connections(o, &asking, epoll);
    for (int i = 0; i < o->connections; i++) ask(&all[i]);
    while (asking.answers < (uint64_t)o->rounds * (uint64_t)o->groups * asking.count) serve_links(epoll, serve);
    struct counted_time time = counted_time(o->warm_up_seconds, o->seconds);
    while (goes_on(&time, tally)) serve_links(epoll, serve);
    return counted_seconds(&time);
}

/* ---- the command line -------------------------------------------------------------------------------------- */

static int api_key_of(const char *name) {
    if (!strcmp(name, "offset-commit")) return OFFSET_COMMIT;
    if (!strcmp(name, "offset-fetch")) return OFFSET_FETCH;
    if (!strcmp(name, "in-turn")) return IN_TURN;
    fail("--api %s is none: see the head of load.c", name);
}

static struct options read_options(int count, char **words) {
    struct options o = {.connections = 16, .window = 1, .partitions = 1, .seconds = 5, .topic = "load"};
    const char *api = "offset-commit";
    const struct option known[] = {
        {"--port", .whole = &o.port, .low = 1, .high = 65535},
        {"--api", .text = &api, .high = 32},
        {"--api-version", .whole = &o.api_version, .low = 6, .high = 8},
        {"--connections", .whole = &o.connections, .low = 1, .high = 10000},
        {"--window", .whole = &o.window, .low = 1, .high = 10000},
        {"--partitions", .whole = &o.partitions, .low = 1, .high = 100000},
        {"--groups", .whole = &o.groups, .low = 1, .high = 1e9},
        {"--rounds", .whole = &o.rounds, .low = 0, .high = 1000},
        {"--seconds", .real = &o.seconds, .low = 0.01, .high = 3600},
        {"--warm-up", .real = &o.warm_up_seconds, .low = 0, .high = 3600},
        {"--topic", .text = &o.topic, .high = 32767},
        {0},
    };
    read_words(count, words, known, "load.c");
    if (!o.port) fail("--port is needed");
    o.api_key = api_key_of(api);
    if (!o.groups) o.groups = o.connections;
    if (!o.api_version) o.api_version = 8;
    if (o.api_key != OFFSET_FETCH && o.api_version != 8) fail("OffsetCommit is spoken in version 8 only");
    return o;
}

int main(int count, char **words) {
    static struct tally tally;
    struct options o = read_options(count, words);
    double seconds = run(&o, &tally);
    if (!tally.answers) fail("no answer in %g s", o.seconds);
    putchar('{');
    print_tally(&tally, seconds, o.partitions);
    puts("}");
    return 0;
}
