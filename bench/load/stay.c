/* stay: members of classic groups say that they stay, as often as they are answered.
 *
 *   stay --port 9092 --connections 16 --window 1 --seconds 5 --prefix run-1
 *
 * Each connection is the one member of a group `prefix-000000`, `prefix-000001` ...: it joins and takes its
 * assignment in old versions, where that is two requests, and then keeps `--window` heartbeats under way for
 * `--seconds` after `--warm-up`. One thread and one epoll. At the end it goes without a word.
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

enum { JOIN_GROUP = 11, HEARTBEAT = 12, SYNC_GROUP = 14 };
enum { JOIN_VERSION = 3, SYNC_VERSION = 1, HEARTBEAT_VERSION = 4 };
enum { SESSION_TIMEOUT_MS = 10000, NAME_BYTES = 256, REQUEST_BYTES = 1024 };

#define GROUP_FORMAT "%s-%06d"

struct options {
    int port, connections, window;
    double seconds, warm_up_seconds;
    const char *prefix;
};

struct connection {
    struct link link;
    struct tally *tally;
    char group[NAME_BYTES], member_id[NAME_BYTES];
    uint32_t generation;
    bool is_answered;
    uint8_t heartbeat[REQUEST_BYTES];
    size_t heartbeat_size;
};

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

static void post_join(struct connection *c) {
    uint8_t *request = request_room(&c->link, REQUEST_BYTES);
    uint8_t *at = put_short_header(request, JOIN_GROUP, JOIN_VERSION);
    at = put_number(put_short_text(at, c->group), SESSION_TIMEOUT_MS, 4);
    at = put_number(at, SESSION_TIMEOUT_MS, 4);              /* the rebalance timeout */
    at = put_short_text(put_short_text(at, ""), "consumer"); /* no member id yet; the protocol type */
    at = put_short_text(put_number(at, 1, 4), "range");      /* one protocol, without metadata */
    post(&c->link, (size_t)(put_number(at, 0, 4) - request));
}

static void take_joined(void *context, struct cursor answer, uint64_t took_ns) {
    struct connection *c = context;
    char name[NAME_BYTES];
    (void)took_ns;
    take_number(&answer, 4); /* throttle time */
    uint64_t error = take_number(&answer, 2);
    if (error) fail("a member may not join, with error %d", (int16_t)error);
    c->generation = (uint32_t)take_number(&answer, 4);
    take_short_text(&answer, name); /* the protocol */
    take_short_text(&answer, name); /* the leader */
    take_short_text(&answer, c->member_id);
    c->is_answered = true;
}

static void post_sync(struct connection *c) {
    uint8_t *request = request_room(&c->link, REQUEST_BYTES);
    uint8_t *at = put_short_header(request, SYNC_GROUP, SYNC_VERSION);
    at = put_number(put_short_text(at, c->group), c->generation, 4);
    at = put_short_text(at, c->member_id);
    post(&c->link, (size_t)(put_number(at, 0, 4) - request)); /* the leader assigns nothing to nobody */
}

static void take_synced(void *context, struct cursor answer, uint64_t took_ns) {
    struct connection *c = context;
    (void)took_ns;
    take_number(&answer, 4); /* throttle time */
    uint64_t error = take_number(&answer, 2);
    if (error) fail("a member gets no assignment, with error %d", (int16_t)error);
    c->is_answered = true;
}

static void await_all(struct connection *all, int connections, int epoll, answer_taker *take) {
    for (int i = 0; i < connections; i++) {
        all[i].is_answered = false;
        flush(&all[i].link);
    }
    for (int i = 0; i < connections;) {
        struct epoll_event ready;
        if (all[i].is_answered) {
            i++;
        } else if (epoll_wait(epoll, &ready, 1, -1) > 0) {
            struct connection *c = ready.data.ptr;
            receive(&c->link, take, c);
        }
    }
}

/* ---- staying --------------------------------------------------------------------------------------------------- */

static void write_heartbeat(struct connection *c) {
    uint8_t *at = put_header(c->heartbeat, HEARTBEAT, HEARTBEAT_VERSION);
    at = put_number(put_text(at, c->group), c->generation, 4);
    at = put_varint(put_text(at, c->member_id), 0); /* group instance id null */
    c->heartbeat_size = (size_t)(put_varint(at, 0) - c->heartbeat);
}

static void ask(struct connection *c) {
    while (is_window_open(&c->link)) {
        memcpy(request_room(&c->link, c->heartbeat_size), c->heartbeat, c->heartbeat_size);
        post(&c->link, c->heartbeat_size);
    }
    flush(&c->link);
}

static void take_answer(void *context, struct cursor answer, uint64_t took_ns) {
    struct tally *tally = ((struct connection *)context)->tally;
    skip_tags(&answer);
    take_number(&answer, 4); /* throttle time */
    note_error(tally, take_number(&answer, 2));
    skip_tags(&answer);
    if (answer.at != answer.end) fail("an answer is %td bytes longer than its fields", answer.end - answer.at);
    note_latency(tally, took_ns);
}

static void serve(void *owner, bool has_come) {
    struct connection *c = owner;
    if (has_come) receive(&c->link, take_answer, c);
    ask(c);
}

static double run(const struct options *o, struct tally *tally) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct connection *all = room_for(sizeof *all * (size_t)o->connections);
    for (int i = 0; i < o->connections; i++) {
        all[i].tally = tally;
        snprintf(all[i].group, sizeof all[i].group, GROUP_FORMAT, o->prefix, i);
        open_link(&all[i].link, epoll, o->port, (uint32_t)o->window, &all[i]);
        post_join(&all[i]);
    }
    await_all(all, o->connections, epoll, take_joined);
    for (int i = 0; i < o->connections; i++) post_sync(&all[i]);
    await_all(all, o->connections, epoll, take_synced);
    struct counted_time time = counted_time(o->warm_up_seconds, o->seconds);
    for (int i = 0; i < o->connections; i++) {
        write_heartbeat(&all[i]);
        ask(&all[i]);
    }
    while (goes_on(&time, tally)) serve_links(epoll, serve);
    return counted_seconds(&time);
}

static struct options read_options(int count, char **words) {
    struct options o = {.connections = 16, .window = 1, .seconds = 5, .prefix = "stay"};
    const struct option known[] = {
        {"--port", .whole = &o.port, .low = 1, .high = 65535},
        {"--connections", .whole = &o.connections, .low = 1, .high = 10000},
        {"--window", .whole = &o.window, .low = 1, .high = 10000},
        {"--seconds", .real = &o.seconds, .low = 0.01, .high = 3600},
        {"--warm-up", .real = &o.warm_up_seconds, .low = 0, .high = 3600},
        {"--prefix", .text = &o.prefix, .high = NAME_BYTES - 9},
        {0},
    };
    read_words(count, words, known, "stay.c");
    if (!o.port) fail("--port is needed");
    return o;
}

int main(int count, char **words) {
    static struct tally tally;
    struct options o = read_options(count, words);
    double seconds = run(&o, &tally);
    if (!tally.answers) fail("no answer in %g s", o.seconds);
    putchar('{');
    print_tally(&tally, seconds, 1);
    puts("}");
    return 0;
}
