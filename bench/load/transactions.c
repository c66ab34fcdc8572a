/* transactions: producers that write records and commit an offset in one transaction after the other.
 *
 *   transactions --port 9092 --topic load --producers 16 --records 1 --partitions 16 --seconds 5
 *
 * Each producer has a connection, a transactional id, a partition and a group of its own. A transaction is, in the
 * second version of the protocol (KIP-890): Produce and TxnOffsetCommit, both under way at once, then EndTxn, whose
 * answer has the epoch of the next transaction. What is refused because the last transaction is still ending, or because
 * a broker is not ready yet, is sent again after a millisecond; any other error ends the run. A transaction takes from
 * its first request to the answer of EndTxn.
 *
 * With `--most 250` every producer ends after 250 transactions, and the run when all have.
 *
 * Prints one JSON object on standard output; anything else is an error on standard error and status 1. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "link.h"
#include "options.h"
#include "tally.h"
#include "wire.h"

enum { PRODUCE = 0, FIND_COORDINATOR = 10, INIT_PRODUCER_ID = 22, END_TXN = 26, TXN_OFFSET_COMMIT = 28 };
enum { NOT_LEADER = 6, COORDINATOR_LOADING = 14, COORDINATOR_NOT_THERE = 15, CONCURRENT_TRANSACTIONS = 51 };
enum { VALUE_BYTES = 100, BATCH_HEAD_BYTES = 61, CRC_AT = 17, WINDOW = 2, RETRY_MS = 1, TIMEOUT_MS = 60000 };
enum { IS_TRANSACTIONAL = 0x10 };

struct options {
    int port, producers, records, partitions, most;
    double seconds, warm_up_seconds;
    const char *topic, *prefix;
};

/* The steps of a producer's life, as bits: the first two at its start, the others for every transaction. */
enum step { FIND = 1, INIT = 2, WRITE = 4, OFFSET = 8, END = 16 };

struct producer {
    struct link link;
    struct world *world;
    char id[64];
    uint32_t partition;
    uint64_t producer_id, began_ns, retry_at_ns, transactions;
    uint16_t epoch;
    enum step sent[WINDOW]; /* by correlation id modulo the window */
    unsigned phase, refused;  /* steps of this phase, and those to be sent again */
};

struct world {
    struct options o;
    struct tally *tally;
    uint8_t *records;
    size_t record_bytes;
    uint64_t now_ms, retries, ended;
};

/* ---- batches of records --------------------------------------------------------------------------------------- */

static uint32_t crc_table[256];

static void fill_crc_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        crc_table[i] = crc;
    }
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t quick_crc(uint32_t crc, const uint8_t **at, const uint8_t *end) {
    for (uint64_t eight; end - *at >= 8; *at += 8) {
        memcpy(&eight, *at, 8);
        crc = (uint32_t)__builtin_ia32_crc32di(crc, eight);
    }
    return crc;
}
#endif

static uint32_t crc32c(const uint8_t *at, size_t bytes) {
    uint32_t crc = 0xffffffff;
    const uint8_t *end = at + bytes;
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2")) crc = quick_crc(crc, &at, end);
#endif
    while (at < end) crc = crc >> 8 ^ crc_table[(crc ^ *at++) & 0xff];
    return ~crc;
}

static uint8_t *put_signed_varint(uint8_t *at, int32_t value) {
    return put_varint(at, (uint32_t)value << 1 ^ (uint32_t)(value >> 31));
}

/* The records of every batch: no key, a value of 100 bytes. */
static void fill_records(struct world *world) {
    uint8_t body[VALUE_BYTES + 16];
    world->records = room_for((size_t)world->o.records * sizeof body);
    uint8_t *out = world->records;
    for (int i = 0; i < world->o.records; i++) {
        uint8_t *at = put_signed_varint(put_number(body, 0, 2), i); /* attributes, timestamp, offset */
        at = put_signed_varint(put_signed_varint(at, -1), VALUE_BYTES);
        memset(at, 'x', VALUE_BYTES);
        at = put_varint(at + VALUE_BYTES, 0); /* headers */
        out = put_signed_varint(out, (int32_t)(at - body));
        memcpy(out, body, (size_t)(at - body));
        out += at - body;
    }
    world->record_bytes = (size_t)(out - world->records);
}

static uint8_t *put_batch(uint8_t *begin, const struct producer *p) {
    const struct world *w = p->world;
    uint8_t *at = put_number(begin, 0, 8);
    at = put_number(at, BATCH_HEAD_BYTES - 12 + w->record_bytes, 4);
    at = put_number(at, 0xffffffff, 4); /* leader epoch */
    at = put_number(at, 2, 1);          /* magic */
    at = put_number(at, 0, 4);          /* the checksum, below */
    at = put_number(at, IS_TRANSACTIONAL, 2);
    at = put_number(at, (uint64_t)w->o.records - 1, 4);
    at = put_number(at, w->now_ms, 8);
    at = put_number(at, w->now_ms, 8);
    at = put_number(at, p->producer_id, 8);
    at = put_number(at, p->epoch, 2);
    at = put_number(at, 0, 4); /* sequence: the epoch is new */
    at = put_number(at, (uint64_t)w->o.records, 4);
    memcpy(at, w->records, w->record_bytes);
    at += w->record_bytes;
    put_number(begin + CRC_AT, crc32c(begin + CRC_AT + 4, (size_t)(at - begin) - CRC_AT - 4), 4);
    return at;
}

/* ---- requests ------------------------------------------------------------------------------------------------- */

static uint8_t *put_producer(uint8_t *at, const struct producer *p) {
    return put_number(put_number(at, p->producer_id, 8), p->epoch, 2);
}

static uint8_t *put_find(uint8_t *at, const struct producer *p) {
    at = put_number(put_header(at, FIND_COORDINATOR, 4), 1, 1); /* of a transactional id */
    return put_varint(put_text(put_varint(at, 2), p->id), 0);
}

static uint8_t *put_init(uint8_t *at, const struct producer *p) {
    at = put_text(put_header(at, INIT_PRODUCER_ID, 5), p->id);
    at = put_number(put_number(at, TIMEOUT_MS, 4), UINT64_MAX, 8);
    return put_varint(put_number(at, 0xffff, 2), 0);
}

static uint8_t *put_write(uint8_t *at, const struct producer *p) {
    at = put_text(put_header(at, PRODUCE, 12), p->id);
    at = put_number(put_number(at, 0xffff, 2), TIMEOUT_MS, 4); /* all acknowledge */
    at = put_text(put_varint(at, 2), p->world->o.topic);
    at = put_number(put_varint(at, 2), p->partition, 4);
    at = put_varint(at, (uint32_t)(BATCH_HEAD_BYTES + p->world->record_bytes) + 1);
    at = put_batch(at, p);
    return put_varint(put_varint(put_varint(at, 0), 0), 0);
}

static uint8_t *put_offset(uint8_t *at, const struct producer *p) {
    at = put_text(put_header(at, TXN_OFFSET_COMMIT, 5), p->id);
    at = put_producer(put_text(at, p->id), p); /* the group has the same name */
    at = put_number(at, 0xffffffff, 4);        /* generation */
    at = put_varint(put_varint(at, 1), 0);     /* member "", no instance */
    at = put_text(put_varint(at, 2), p->world->o.topic);
    at = put_number(put_varint(at, 2), p->partition, 4);
    at = put_number(at, p->transactions + 1, 8);
    at = put_varint(put_number(at, 0xffffffff, 4), 1); /* no leader epoch, metadata "" */
    return put_varint(put_varint(put_varint(at, 0), 0), 0);
}

static uint8_t *put_end(uint8_t *at, const struct producer *p) {
    at = put_producer(put_text(put_header(at, END_TXN, 5), p->id), p);
    return put_varint(put_number(at, 1, 1), 0);
}

static void send_step(struct producer *p, enum step step) {
    uint8_t *begin = request_room(&p->link, 1024 + strlen(p->world->o.topic) + p->world->record_bytes), *at = begin;
    switch (step) {
    case FIND: at = put_find(at, p); break;
    case INIT: at = put_init(at, p); break;
    case WRITE: at = put_write(at, p); break;
    case OFFSET: at = put_offset(at, p); break;
    case END: at = put_end(at, p); break;
    }
    p->sent[p->link.next_correlation % WINDOW] = step;
    post(&p->link, (size_t)(at - begin));
}

static void send_steps(struct producer *p, unsigned steps) {
    for (unsigned step = FIND; step <= END; step <<= 1)
        if (steps & step) send_step(p, (enum step)step);
    flush(&p->link);
}

/* ---- answers: each reader returns the error code of its answer ------------------------------------------------ */

static uint64_t take_found(struct cursor *c) {
    if (take_number(c, 4), take_array(c) != 1) fail("one coordinator was asked for");
    skip_text(c);
    take_number(c, 4);
    skip_text(c);
    take_number(c, 4);
    return take_number(c, 2);
}

/* InitProducerId and EndTxn: the error, and who to be from now on. */
static uint64_t take_producer(struct cursor *c, struct producer *p) {
    take_number(c, 4);
    uint64_t error = take_number(c, 2), producer_id = take_number(c, 8), epoch = take_number(c, 2);
    if (!error) p->producer_id = producer_id, p->epoch = (uint16_t)epoch;
    return error;
}

/* Produce and TxnOffsetCommit: the error of the only partition. */
static uint64_t take_partition(struct cursor *c) {
    if (take_array(c) != 1) fail("one topic was written to");
    skip_text(c);
    if (take_array(c) != 1) fail("one partition was written to");
    take_number(c, 4);
    return take_number(c, 2);
}

static uint64_t take_error(struct cursor *c, enum step step, struct producer *p) {
    skip_tags(c);
    switch (step) {
    case FIND: return take_found(c);
    case INIT:
    case END: return take_producer(c, p);
    case OFFSET: take_number(c, 4); break;
    case WRITE: break;
    }
    return take_partition(c);
}

static bool passes(uint64_t error) {
    return error == CONCURRENT_TRANSACTIONS || error == NOT_LEADER /* the topic is new */
           || error == COORDINATOR_LOADING || error == COORDINATOR_NOT_THERE;
}

static void take_answer(void *context, struct cursor c, uint64_t took_ns) {
    (void)took_ns;
    struct producer *p = context;
    enum step step = p->sent[(p->link.awaited_correlation - 1) % WINDOW]; /* this one is awaited no more */
    uint64_t error = take_error(&c, step, p);
    if (passes(error)) p->refused |= step;
    else if (error) fail("error %d answers step %d of transaction %llu", (int16_t)error, step,
                         (unsigned long long)p->transactions);
}

/* ---- the life of a producer ----------------------------------------------------------------------------------- */

static void begin(struct producer *p, unsigned phase) {
    if (phase & WRITE) p->began_ns = now_ns();
    p->phase = phase;
    send_steps(p, phase);
}

static void end_transaction(struct producer *p) {
    struct world *w = p->world;
    note_latency(w->tally, now_ns() - p->began_ns);
    if (++p->transactions == (uint64_t)w->o.most) w->ended++;
    else begin(p, WRITE | OFFSET);
}

static void go_on(struct producer *p) {
    if (p->refused) {
        p->world->retries++;
        p->retry_at_ns = now_ns() + RETRY_MS * 1000000ull;
    } else if (p->phase & FIND) begin(p, INIT);
    else if (p->phase & INIT) begin(p, WRITE | OFFSET);
    else if (p->phase & WRITE) begin(p, END);
    else end_transaction(p);
}

static void serve(struct producer *p, bool has_come) {
    if (has_come) receive(&p->link, take_answer, p);
    flush(&p->link);
    bool is_waiting = p->link.next_correlation != p->link.awaited_correlation;
    if (has_come && !is_waiting && !p->retry_at_ns) go_on(p);
}

static void retry(struct producer *p) {
    unsigned steps = p->refused;
    p->refused = 0;
    p->retry_at_ns = 0;
    send_steps(p, steps);
}

static struct producer *open_producers(struct world *world, int epoll) {
    const struct options *o = &world->o;
    struct producer *all = room_for(sizeof *all * (size_t)o->producers);
    for (int i = 0; i < o->producers; i++) {
        struct producer *p = &all[i];
        p->world = world;
        p->partition = (uint32_t)(i % o->partitions);
        snprintf(p->id, sizeof p->id, "%.40s-%d", o->prefix, i);
        open_link(&p->link, epoll, o->port, WINDOW, p);
        begin(p, FIND);
    }
    return all;
}

static uint64_t wall_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static void turn(struct world *world, struct producer *all, int epoll) {
    struct epoll_event ready[256];
    int events = epoll_wait(epoll, ready, 256, RETRY_MS);
    world->now_ms = wall_ms();
    for (int i = 0; i < events; i++) serve(ready[i].data.ptr, ready[i].events & ~(uint32_t)EPOLLOUT);
    for (int i = 0; i < world->o.producers; i++)
        if (all[i].retry_at_ns && all[i].retry_at_ns <= now_ns()) retry(&all[i]);
}

static double run(struct world *world) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct producer *all = open_producers(world, epoll);
    struct counted_time time = counted_time(world->o.warm_up_seconds, world->o.seconds);
    while (goes_on(&time, world->tally) && world->ended < (uint64_t)world->o.producers) turn(world, all, epoll);
    return counted_seconds(&time);
}

/* ---- the command line ----------------------------------------------------------------------------------------- */

static struct options read_options(int count, char **words) {
    struct options o = {.producers = 1, .records = 1, .partitions = 1, .seconds = 5, .topic = "load", .prefix = "load"};
    const struct option known[] = {
        {"--port", .whole = &o.port, .low = 1, .high = 65535},
        {"--producers", .whole = &o.producers, .low = 1, .high = 10000},
        {"--records", .whole = &o.records, .low = 1, .high = 8000},
        {"--partitions", .whole = &o.partitions, .low = 1, .high = 100000},
        {"--most", .whole = &o.most, .low = 0, .high = 1e9},
        {"--seconds", .real = &o.seconds, .low = 0.01, .high = 3600},
        {"--warm-up", .real = &o.warm_up_seconds, .low = 0, .high = 3600},
        {"--topic", .text = &o.topic, .high = 249},
        {"--prefix", .text = &o.prefix, .high = 40},
        {0},
    };
    read_words(count, words, known, "transactions.c");
    if (!o.port) fail("--port is needed");
    return o;
}

int main(int count, char **words) {
    static struct tally tally;
    struct world world = {.o = read_options(count, words), .tally = &tally};
    fill_crc_table();
    fill_records(&world);
    double seconds = run(&world);
    if (!tally.answers) fail("no transaction ended in %g s", world.o.seconds);
    printf("{\"retries\": %llu, \"transactions\": ", (unsigned long long)world.retries);
    putchar('{');
    print_tally(&tally, seconds, 1);
    puts("}}");
    return 0;
}
