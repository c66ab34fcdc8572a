/* stay: members of classic groups join, take their assignments, and say that they stay, as often as they are answered.
 *
 *   stay --port 9092 --members 20000 --connections 16 --window 1 --seconds 5 --prefix run-1
 *
 * Each member is the only one of a group `prefix-000000`, `prefix-000001` ... Members sit on connections in turn, and a
 * connection asks for one after the other. They join and take their assignments in old versions, where that is two
 * requests, and then heartbeats are counted for `--seconds` after `--warm-up`, with `--window` under way on each
 * connection all the time. One thread and one epoll. At the end they go without a word.
 *
 * Prints one JSON object on standard output, with the seconds from the first join's request to the last assignment
 * (`join_s`); anything else is an error on standard error and status 1. */
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

enum { JOIN_GROUP = 11, HEARTBEAT = 12, SYNC_GROUP = 14 };
enum { JOIN_VERSION = 3, SYNC_VERSION = 1, HEARTBEAT_VERSION = 4 };
enum { SESSION_TIMEOUT_MS = 120000, NAME_BYTES = 256, REQUEST_BYTES = 1024 };

enum phase { JOINING, SYNCING, STAYING };

#define GROUP_FORMAT "%s-%06d"

struct options {
    int port, members, connections, window;
    double seconds, warm_up_seconds;
    const char *prefix;
};

struct member {
    char *group, *id;
    uint32_t generation;
    uint8_t *heartbeat;
    size_t heartbeat_size;
};

struct run {
    const struct options *o;
    enum phase phase;
    struct member *members;
    uint32_t to_send, to_answer; /* of this phase, before all are staying */
    struct tally tally;
};

struct connection {
    struct link link;
    struct run *run;
    uint32_t first, members; /* its members are first, first + connections ... */
    uint32_t base;           /* the correlation id of this phase's first request */
};

static struct member *member_at(const struct connection *c, uint32_t correlation) {
    return &c->run->members[c->first + (correlation - c->base) % c->members * (uint32_t)c->run->o->connections];
}

/* ---- becoming a member ----------------------------------------------------------------------------------------- */

/* Old versions have texts with two bytes of length. */
static uint8_t *put_short_text(uint8_t *at, const char *text) {
    size_t length = strlen(text);
    memcpy(put_number(at, length, 2), text, length);
    return at + 2 + length;
}

static void take_short_text(struct cursor *c, char *text) {
    size_t length = (size_t)take_number(c, 2);
    need(c, length);
    if (length >= NAME_BYTES) fail("a name of %zu bytes", length);
    memcpy(text, c->at, length);
    text[length] = 0;
    c->at += length;
}

/* The header of old versions has no tagged fields at its end. */
static uint8_t *put_short_header(uint8_t *at, int api_key, int api_version) {
    return put_header(at, api_key, api_version) - 1;
}

static void post_join(struct connection *c, const struct member *m) {
    uint8_t *request = request_room(&c->link, REQUEST_BYTES);
    uint8_t *at = put_short_header(request, JOIN_GROUP, JOIN_VERSION);
    at = put_number(put_short_text(at, m->group), SESSION_TIMEOUT_MS, 4);
    at = put_number(at, SESSION_TIMEOUT_MS, 4);              /* the rebalance timeout */
    at = put_short_text(put_short_text(at, ""), "consumer"); /* no member id yet; the protocol type */
    at = put_short_text(put_number(at, 1, 4), "range");      /* one protocol, without metadata */
    post(&c->link, (size_t)(put_number(at, 0, 4) - request));
}

static void take_joined(struct member *m, struct cursor answer) {
    char name[NAME_BYTES];
    take_number(&answer, 4); /* throttle time */
    uint64_t error = take_number(&answer, 2);
    if (error) fail("a member may not join, with error %d", (int16_t)error);
    m->generation = (uint32_t)take_number(&answer, 4);
    take_short_text(&answer, name); /* the protocol */
    take_short_text(&answer, name); /* the leader */
    take_short_text(&answer, name);
    m->id = strdup(name);
}

static void post_sync(struct connection *c, const struct member *m) {
    uint8_t *request = request_room(&c->link, REQUEST_BYTES);
    uint8_t *at = put_short_header(request, SYNC_GROUP, SYNC_VERSION);
    at = put_number(put_short_text(at, m->group), m->generation, 4);
    at = put_short_text(at, m->id);
    post(&c->link, (size_t)(put_number(at, 0, 4) - request)); /* the leader assigns nothing to nobody */
}

static void write_heartbeat(struct member *m) {
    uint8_t room[REQUEST_BYTES], *at = put_header(room, HEARTBEAT, HEARTBEAT_VERSION);
    at = put_number(put_text(at, m->group), m->generation, 4);
    at = put_varint(put_text(at, m->id), 0); /* group instance id null */
    m->heartbeat_size = (size_t)(put_varint(at, 0) - room);
    m->heartbeat = room_for(m->heartbeat_size);
    memcpy(m->heartbeat, room, m->heartbeat_size);
}

static void take_synced(struct member *m, struct cursor answer) {
    take_number(&answer, 4); /* throttle time */
    uint64_t error = take_number(&answer, 2);
    if (error) fail("a member gets no assignment, with error %d", (int16_t)error);
    write_heartbeat(m);
}

/* ---- staying --------------------------------------------------------------------------------------------------- */

static void take_heartbeat(struct tally *tally, struct cursor answer, uint64_t took_ns) {
    skip_tags(&answer);
    take_number(&answer, 4); /* throttle time */
    note_error(tally, take_number(&answer, 2));
    skip_tags(&answer);
    if (answer.at != answer.end) fail("an answer is %td bytes longer than its fields", answer.end - answer.at);
    note_latency(tally, took_ns);
}

/* ---- the run --------------------------------------------------------------------------------------------------- */

static void take_answer(void *context, struct cursor answer, uint64_t took_ns) {
    struct connection *c = context;
    struct run *run = c->run;
    if (run->phase == STAYING) {
        take_heartbeat(&run->tally, answer, took_ns);
        return;
    }
    struct member *m = member_at(c, c->link.awaited_correlation - 1);
    if (run->phase == JOINING) take_joined(m, answer);
    else take_synced(m, answer);
    run->to_answer--;
}

static void ask(struct connection *c) {
    struct run *run = c->run;
    while (is_window_open(&c->link)) {
        uint32_t correlation = c->link.next_correlation;
        if (run->phase != STAYING && correlation - c->base == c->members) break;
        struct member *m = member_at(c, correlation);
        if (run->phase == JOINING) {
            post_join(c, m);
        } else if (run->phase == SYNCING) {
            post_sync(c, m);
        } else {
            memcpy(request_room(&c->link, m->heartbeat_size), m->heartbeat, m->heartbeat_size);
            post(&c->link, m->heartbeat_size);
        }
    }
    flush(&c->link);
}

static void serve(void *owner, bool has_come) {
    struct connection *c = owner;
    if (has_come) receive(&c->link, take_answer, c);
    ask(c);
}

static void begin(struct run *run, struct connection *all, enum phase phase) {
    run->phase = phase;
    run->to_answer = (uint32_t)run->o->members;
    for (int i = 0; i < run->o->connections; i++) all[i].base = all[i].link.next_correlation;
    for (int i = 0; i < run->o->connections; i++) ask(&all[i]);
}

static struct connection *open_connections(struct run *run, int epoll) {
    const struct options *o = run->o;
    char name[NAME_BYTES];
    struct connection *all = room_for(sizeof *all * (size_t)o->connections);
    run->members = room_for(sizeof *run->members * (size_t)o->members);
    for (int i = 0; i < o->members; i++) {
        snprintf(name, sizeof name, GROUP_FORMAT, o->prefix, i);
        run->members[i].group = strdup(name);
    }
    for (int i = 0; i < o->connections; i++) {
        all[i].run = run;
        all[i].first = (uint32_t)i;
        all[i].members = (uint32_t)((o->members - i - 1) / o->connections + 1);
        open_link(&all[i].link, epoll, o->port, (uint32_t)o->window, &all[i]);
    }
    return all;
}

/* Returns for how many seconds heartbeats were counted. */
static double run_all(struct run *run, double *join_s) {
    const struct options *o = run->o;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct connection *all = open_connections(run, epoll);
    uint64_t began_ns = now_ns();
    for (enum phase phase = JOINING; phase < STAYING; phase++) {
        begin(run, all, phase);
        while (run->to_answer) serve_links(epoll, serve);
    }
    *join_s = (double)(now_ns() - began_ns) / 1e9;
    struct counted_time time = counted_time(o->warm_up_seconds, o->seconds);
    begin(run, all, STAYING);
    while (goes_on(&time, &run->tally)) serve_links(epoll, serve);
    return counted_seconds(&time);
}

static struct options read_options(int count, char **words) {
    struct options o = {.members = 16, .connections = 16, .window = 1, .seconds = 5, .prefix = "stay"};
    const struct option known[] = {
        {"--port", .whole = &o.port, .low = 1, .high = 65535},
        {"--members", .whole = &o.members, .low = 1, .high = 1e6},
        {"--connections", .whole = &o.connections, .low = 1, .high = 10000},
        {"--window", .whole = &o.window, .low = 1, .high = 10000},
        {"--seconds", .real = &o.seconds, .low = 0.01, .high = 3600},
        {"--warm-up", .real = &o.warm_up_seconds, .low = 0, .high = 3600},
        {"--prefix", .text = &o.prefix, .high = NAME_BYTES - 9},
        {0},
    };
    read_words(count, words, known, "stay.c");
    if (!o.port) fail("--port is needed");
    if (o.members < o.connections) fail("%d connections for %d members: each is to have one", o.connections, o.members);
    return o;
}

int main(int count, char **words) {
    static struct run run;
    struct options o = read_options(count, words);
    double join_s;
    run.o = &o;
    double seconds = run_all(&run, &join_s);
    if (!run.tally.answers) fail("no answer in %g s", o.seconds);
    printf("{\"join_s\": %.4f, \"steady\": {", join_s);
    print_tally(&run.tally, seconds, 1);
    puts("}}");
    return 0;
}
