/* queue: plays the members of one share group (KIP-932), and tells how many records a second they took and accepted,
 * or how soon a released record came to another member.
 *
 *   queue --port 9092 --topic flights --partitions 4 --group g --way implicit --members 4 --records 1000000
 *   queue --port 9092 --topic flights --group g --way hand-over --members 2 --records 1000
 *
 * One thread and one epoll; a connection and one request under way for each member. A member joins with heartbeats,
 * until it has its share-partitions, and asks for 500 records at a time, as Java's consumer does.
 *
 * `--way implicit`: a fetch accepts what the fetch before got. `--way explicit`: a ShareAcknowledge between two
 * fetches does. Counted is from the answer that accepts the last of `--warm-up-records` to the one that accepts
 * the last of all. The topic must have more records than are asked for, so that no fetch waits for new ones.
 *
 * `--way hand-over`: the first of two members acquires all records, and releases one after the other, while a fetch
 * of the other member waits for one record. Then they change places, twice. Counted is the time from each release to
 * the answer with the record. The topic must have one partition and exactly these records, which must be handed
 * over before their locks end.
 *
 * Prints one JSON object on standard output; anything else is an error on standard error and status 1. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "link.h"
#include "options.h"
#include "tally.h"
#include "wire.h"

enum { HEARTBEAT = 76, FETCH = 78, ACKNOWLEDGE = 79, HEARTBEAT_VERSION = 1, SHARE_VERSION = 2 };
enum { ACCEPT = 1, RELEASE = 2, BATCH_OPTIMIZED = 0, RECORD_LIMIT = 1 };
enum { TOPIC_ID_BYTES = 16, MEMBER_ID_BYTES = 22, FIXED_BYTES = 256, PARTITION_BYTES = 64, SPAN_BYTES = 24 };
enum { MAX_WAIT_MS = 500, MAX_BYTES = 50 << 20, MAX_RECORDS = 500, MOST_PARTITIONS = 1000, HAND_OVERS = 3 };
enum { HEARTBEAT_PAUSE_US = 20000, COORDINATOR_LOADING = 14, NOT_COORDINATOR = 16 };

enum way { IMPLICIT, EXPLICIT, HAND_OVER };
static const char *const WAYS[] = {"implicit", "explicit", "hand-over", 0};

struct options {
    int port, members, partitions, records, warm_up_records;
    const char *topic, *group, *way_name;
    enum way way;
    double patience_seconds;
};

/* Records that a member acquired, and does not yet say anything about. */
struct span {
    int64_t first, last;
};

/* A share-partition that a member is assigned. */
struct share {
    uint8_t topic_id[TOPIC_ID_BYTES];
    uint32_t partition, count, room;
    struct span *spans;
};

struct run;

struct member {
    struct link link;
    struct run *run;
    char id[MEMBER_ID_BYTES + 1];
    int32_t epoch, session_epoch;
    int asked; /* the API of the request under way; 0: none */
    struct share *shares;
    uint32_t share_count;
    uint64_t held;     /* records in `spans` */
    uint64_t accepted; /* records that the request under way accepts */
};

struct run {
    const struct options *o;
    struct member *members;
    uint64_t accepted, begin_ns, end_ns;
    struct tally tally; /* of fetches; of hand-overs if that is the way */
    /* Hand-overs: */
    struct member *giver, *taker;
    int64_t next_released;
    int rounds_left;
    uint64_t released_ns;
    bool is_over;
};

/* ---- requests ------------------------------------------------------------------------------------------------ */

static uint8_t *begin_request(struct member *m, int api, size_t room, uint8_t **at) {
    int version = api == HEARTBEAT ? HEARTBEAT_VERSION : SHARE_VERSION;
    uint8_t *request = request_room(&m->link, FIXED_BYTES + room);
    *at = put_header(request, api, version);
    *at = put_text(*at, m->run->o->group);
    *at = put_text(*at, m->id);
    m->asked = api;
    return request;
}

static void end_request(struct member *m, uint8_t *request, uint8_t *at) {
    post(&m->link, (size_t)(put_varint(at, 0) - request));
    flush(&m->link);
}

static void post_heartbeat(struct member *m) {
    uint8_t *at, *request = begin_request(m, HEARTBEAT, strlen(m->run->o->topic), &at);
    at = put_number(at, (uint32_t)m->epoch, 4);
    at = put_varint(at, 0); /* rack null */
    at = put_varint(at, m->epoch ? 0 : 2);
    if (!m->epoch) at = put_text(at, m->run->o->topic);
    end_request(m, request, at);
}

static size_t topics_room(const struct member *m) {
    size_t room = 0;
    for (uint32_t i = 0; i < m->share_count; i++) room += PARTITION_BYTES + m->shares[i].count * SPAN_BYTES;
    return room;
}

/* A topic with one partition, and what is said of its records. */
static uint8_t *put_share(uint8_t *at, struct share *share, int type) {
    memcpy(at, share->topic_id, TOPIC_ID_BYTES);
    at = put_varint(at + TOPIC_ID_BYTES, 2);
    at = put_number(at, share->partition, 4);
    at = put_varint(at, share->count + 1);
    for (uint32_t i = 0; i < share->count; i++) {
        at = put_number(at, (uint64_t)share->spans[i].first, 8);
        at = put_number(at, (uint64_t)share->spans[i].last, 8);
        at = put_varint(at, 2);
        at = put_number(at, (uint64_t)type, 1);
        at = put_varint(at, 0);
    }
    share->count = 0;
    at = put_varint(at, 0);   /* partition's tags */
    return put_varint(at, 0); /* topic's tags */
}

/* All share-partitions when the session begins, then those with records to accept. */
static uint8_t *put_topics(uint8_t *at, struct member *m) {
    bool begins = !m->session_epoch;
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->share_count; i++) count += begins || m->shares[i].count;
    at = put_varint(at, count + 1);
    for (uint32_t i = 0; i < m->share_count; i++)
        if (begins || m->shares[i].count) at = put_share(at, &m->shares[i], ACCEPT);
    m->accepted = m->held;
    m->held = 0;
    return at;
}

/* A fetch, which accepts what the member holds unless it `keeps` that. */
static void post_fetch(struct member *m, int records, int mode, bool keeps) {
    uint8_t *at, *request = begin_request(m, FETCH, topics_room(m), &at);
    at = put_number(at, (uint32_t)m->session_epoch, 4);
    at = put_number(at, MAX_WAIT_MS, 4);
    at = put_number(at, 1, 4);
    at = put_number(at, MAX_BYTES, 4);
    at = put_number(at, (uint32_t)records, 4);
    at = put_number(at, (uint32_t)records, 4); /* batch size */
    at = put_number(at, (uint64_t)mode, 1);
    at = put_number(at, 0, 1); /* renews: no */
    at = keeps && m->session_epoch ? put_varint(at, 1) : put_topics(at, m);
    at = put_varint(at, 1); /* forgotten topics */
    m->session_epoch++;
    end_request(m, request, at);
}

static void post_acknowledge(struct member *m) {
    uint8_t *at, *request = begin_request(m, ACKNOWLEDGE, topics_room(m), &at);
    at = put_number(at, (uint32_t)m->session_epoch++, 4);
    at = put_number(at, 0, 1);
    at = put_topics(at, m);
    end_request(m, request, at);
}

static void post_release(struct member *m, int64_t offset) {
    struct span one = {offset, offset};
    struct share share = m->shares[0];
    share.spans = &one;
    share.count = 1;
    uint8_t *at, *request = begin_request(m, ACKNOWLEDGE, PARTITION_BYTES + SPAN_BYTES, &at);
    at = put_number(at, (uint32_t)m->session_epoch++, 4);
    at = put_number(at, 0, 1);
    at = put_varint(at, 2);
    at = put_share(at, &share, RELEASE);
    end_request(m, request, at);
}

/* ---- answers ------------------------------------------------------------------------------------------------- */

static void refuse(const char *what, uint64_t error) {
    if (error) fail("%s is refused with error %d", what, (int16_t)error);
}

static void add_share(struct member *m, const uint8_t *topic_id, uint32_t partition) {
    if (m->share_count == MOST_PARTITIONS) fail("a member has more than %d partitions", MOST_PARTITIONS);
    struct share *share = &m->shares[m->share_count++];
    memcpy(share->topic_id, topic_id, TOPIC_ID_BYTES);
    share->partition = partition;
}

static void take_assignment(struct member *m, struct cursor *c) {
    m->share_count = 0;
    for (uint32_t topics = take_array(c); topics; topics--) {
        const uint8_t *topic_id = c->at;
        need(c, TOPIC_ID_BYTES);
        c->at += TOPIC_ID_BYTES;
        for (uint32_t partitions = take_array(c); partitions; partitions--)
            add_share(m, topic_id, (uint32_t)take_number(c, 4));
        skip_tags(c);
    }
    skip_tags(c);
}

/* A coordinator that is loading, or whose topic is being made, is asked again. */
static void take_heartbeat(struct member *m, struct cursor *c) {
    take_number(c, 4); /* throttle time */
    uint64_t error = take_number(c, 2);
    bool is_loading = COORDINATOR_LOADING <= error && error <= NOT_COORDINATOR;
    if (!is_loading) refuse("a heartbeat", error);
    skip_text(c);
    skip_text(c);
    int32_t epoch = (int32_t)take_number(c, 4);
    if (!is_loading) m->epoch = epoch;
    take_number(c, 4); /* interval */
    if ((int8_t)take_number(c, 1) > 0) take_assignment(m, c);
}

static void skip_leader(struct cursor *c) {
    take_number(c, 8);
    skip_tags(c);
}

static struct share *share_of(struct member *m, const uint8_t *topic_id, uint32_t partition) {
    for (uint32_t i = 0; i < m->share_count; i++)
        if (m->shares[i].partition == partition && !memcmp(m->shares[i].topic_id, topic_id, TOPIC_ID_BYTES))
            return &m->shares[i];
    fail("records of partition %u come, which nobody asked for", partition);
}

static void note_span(struct member *m, struct share *share, struct span span) {
    if (share->count == share->room) {
        share->room = share->room ? 2 * share->room : 64;
        share->spans = realloc(share->spans, share->room * sizeof *share->spans);
        if (!share->spans) fail("no memory for %u ranges", share->room);
    }
    share->spans[share->count++] = span;
    m->held += (uint64_t)(span.last - span.first + 1);
}

static void take_fetched(struct member *m, const uint8_t *topic_id, struct cursor *c) {
    struct share *share = share_of(m, topic_id, (uint32_t)take_number(c, 4));
    refuse("a fetch of a partition", take_number(c, 2));
    skip_text(c);
    refuse("an acknowledgement on a fetch", take_number(c, 2));
    skip_text(c);
    skip_leader(c);
    skip_text(c); /* the batches */
    for (uint32_t ranges = take_array(c); ranges; ranges--) {
        int64_t first = (int64_t)take_number(c, 8), last = (int64_t)take_number(c, 8);
        take_number(c, 2); /* delivery count */
        skip_tags(c);
        note_span(m, share, (struct span){first, last});
    }
}

static void take_acknowledged(struct cursor *c) {
    take_number(c, 4);
    refuse("an acknowledgement", take_number(c, 2));
    skip_text(c);
    skip_leader(c);
}

static void take_partitions(struct member *m, struct cursor *c) {
    bool is_fetch = m->asked == FETCH;
    take_number(c, 4); /* throttle time */
    refuse(is_fetch ? "a fetch" : "an acknowledgement", take_number(c, 2));
    skip_text(c);
    take_number(c, 4); /* lock duration */
    for (uint32_t topics = take_array(c); topics; topics--) {
        const uint8_t *topic_id = c->at;
        need(c, TOPIC_ID_BYTES);
        c->at += TOPIC_ID_BYTES;
        for (uint32_t partitions = take_array(c); partitions; partitions--) {
            if (is_fetch) take_fetched(m, topic_id, c);
            else take_acknowledged(c);
            skip_tags(c);
        }
        skip_tags(c);
    }
    if (take_array(c)) fail("another node is named");
}

/* ---- records a second ------------------------------------------------------------------------------------------ */

static void note_accepted(struct member *m) {
    struct run *run = m->run;
    run->accepted += m->accepted;
    m->accepted = 0;
    uint64_t warm = (uint64_t)run->o->warm_up_records, all = warm + (uint64_t)run->o->records;
    if (!run->begin_ns && run->accepted >= warm) {
        run->begin_ns = now_ns();
        run->tally.counting = true;
        run->accepted = warm;
    }
    if (run->accepted >= all) {
        run->end_ns = now_ns();
        run->is_over = true;
    }
}

static void go_on(struct member *m, int answered, uint64_t took_ns) {
    note_accepted(m);
    if (answered == FETCH) note_latency(&m->run->tally, took_ns);
    if (m->run->is_over) return;
    if (m->run->o->way == EXPLICIT && m->held) post_acknowledge(m);
    else post_fetch(m, MAX_RECORDS, BATCH_OPTIMIZED, false);
}

/* ---- hand-overs ------------------------------------------------------------------------------------------------ */

static void change_places(struct run *run) {
    struct member *giver = run->taker;
    run->taker = run->giver;
    run->giver = giver;
    run->next_released = 0;
    run->is_over = !run->rounds_left--;
}

/* The next release, as soon as both answers to the last one are there and the taker waits again. */
static void hand_over(struct run *run) {
    if (run->giver->asked || run->is_over) return;
    if (!run->taker->asked) {
        if (run->next_released == run->o->records) change_places(run);
        if (run->is_over || run->giver->asked) return;
        post_fetch(run->taker, 1, RECORD_LIMIT, true);
    }
    if (run->released_ns) return; /* it has not come yet */
    run->released_ns = now_ns();
    post_release(run->giver, run->next_released);
}

static void take_handed_over(struct run *run) {
    struct share *share = &run->taker->shares[0];
    if (!run->taker->held) return; /* the fetch has waited for nothing */
    struct span got = share->spans[share->count - 1];
    if (run->taker->held != 1 || got.first != run->next_released) fail("offset %lld comes", (long long)got.first);
    note_latency(&run->tally, now_ns() - run->released_ns);
    run->released_ns = 0;
    run->next_released++;
    run->taker->held = share->count = 0;
}

/* The first member acquires everything first. */
static void go_on_handing(struct member *m, int answered) {
    struct run *run = m->run;
    if (!run->giver) {
        if (m->held < (uint64_t)run->o->records) {
            post_fetch(m, run->o->records, BATCH_OPTIMIZED, true);
            return;
        }
        m->held = m->shares[0].count = 0;
        run->giver = m;
        run->taker = m + 1;
        run->tally.counting = true;
    } else if (answered == FETCH) {
        take_handed_over(run);
    }
    hand_over(run);
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void take_answer(void *context, struct cursor c, uint64_t took_ns) {
    struct member *m = context;
    int answered = m->asked;
    skip_tags(&c);
    if (answered == HEARTBEAT) take_heartbeat(m, &c);
    else take_partitions(m, &c);
    skip_tags(&c);
    if (c.at != c.end) fail("an answer is %td bytes longer than its fields", c.end - c.at);
    m->asked = 0;
    if (answered == HEARTBEAT) return;
    if (m->run->o->way == HAND_OVER) go_on_handing(m, answered);
    else go_on(m, answered, took_ns);
}

static void serve(void *owner, bool has_come) {
    struct member *m = owner;
    if (has_come) receive(&m->link, take_answer, m);
    flush(&m->link);
}

static void open_members(struct run *run, int epoll) {
    run->members = room_for(sizeof *run->members * (size_t)run->o->members);
    for (int i = 0; i < run->o->members; i++) {
        struct member *m = &run->members[i];
        m->run = run;
        m->shares = room_for(sizeof *m->shares * MOST_PARTITIONS);
        /* 16 bytes in base 64, as Java's clients name themselves. */
        snprintf(m->id, sizeof m->id, "benchQueue%07u%04uA", (unsigned)getpid() % 10000000u, (unsigned)i % 10000u);
        open_link(&m->link, epoll, run->o->port, 1, m);
    }
}

static bool is_assigned(const struct member *m, uint32_t partition) {
    for (uint32_t i = 0; i < m->share_count; i++)
        if (m->shares[i].partition == partition) return true;
    return false;
}

/* Whether all members are in one epoch, each of them has partitions, and each partition has a member. */
static bool is_settled(const struct run *run) {
    int assigned = 0;
    for (int i = 0; i < run->o->members; i++)
        if (run->members[i].epoch != run->members[0].epoch || !run->members[i].share_count) return false;
    for (int partition = 0; partition < run->o->partitions; partition++) {
        bool has_member = false;
        for (int i = 0; i < run->o->members; i++) has_member |= is_assigned(&run->members[i], (uint32_t)partition);
        assigned += has_member;
    }
    return assigned == run->o->partitions;
}

static bool are_answered(const struct run *run) {
    for (int i = 0; i < run->o->members; i++)
        if (run->members[i].asked) return false;
    return true;
}

/* Heartbeats until the group is settled. */
static void join(struct run *run, int epoll) {
    uint64_t end_ns = now_ns() + (uint64_t)(run->o->patience_seconds * 1e9);
    while (!is_settled(run)) {
        for (int i = 0; i < run->o->members; i++) post_heartbeat(&run->members[i]);
        while (!are_answered(run)) {
            if (now_ns() > end_ns) fail("no partitions are assigned in %g s", run->o->patience_seconds);
            serve_links(epoll, serve);
        }
        usleep(HEARTBEAT_PAUSE_US);
    }
}

static void run_members(struct run *run) {
    const struct options *o = run->o;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    open_members(run, epoll);
    join(run, epoll);
    uint64_t end_ns = now_ns() + (uint64_t)(o->patience_seconds * 1e9);
    bool hands_over = o->way == HAND_OVER;
    for (int i = 0; i < (hands_over ? 1 : o->members); i++)
        post_fetch(&run->members[i], hands_over ? o->records : MAX_RECORDS, BATCH_OPTIMIZED, hands_over);
    while (!run->is_over) {
        if (now_ns() > end_ns) fail("%llu records in %g s", (unsigned long long)run->accepted, o->patience_seconds);
        serve_links(epoll, serve);
    }
}

/* ---- the command line ---------------------------------------------------------------------------------------- */

static struct options read_options(int count, char **words) {
    struct options o = {.members = 1, .partitions = 1, .patience_seconds = 120, .topic = "", .group = "", .way_name = WAYS[IMPLICIT]};
    const struct option known[] = {
        {"--port", .whole = &o.port, .low = 1, .high = 65535},
        {"--topic", .text = &o.topic, .high = 249},
        {"--group", .text = &o.group, .high = 100},
        {"--way", .text = &o.way_name, .high = 32},
        {"--members", .whole = &o.members, .low = 1, .high = 1000},
        {"--partitions", .whole = &o.partitions, .low = 1, .high = MOST_PARTITIONS},
        {"--records", .whole = &o.records, .low = 1, .high = 1e9},
        {"--warm-up-records", .whole = &o.warm_up_records, .low = 0, .high = 1e9},
        {"--patience", .real = &o.patience_seconds, .low = 1, .high = 3600},
        {0},
    };
    read_words(count, words, known, "queue.c");
    while (WAYS[o.way] && strcmp(WAYS[o.way], o.way_name)) o.way++;
    if (!WAYS[o.way]) fail("--way %s is none: see the head of queue.c", o.way_name);
    if (!o.port || !*o.topic || !*o.group || !o.records) fail("--port, --topic, --group and --records are needed");
    if (o.way == HAND_OVER && o.members != 2) fail("--way hand-over needs --members 2");
    return o;
}

int main(int count, char **words) {
    static struct run run;
    struct options o = read_options(count, words);
    run.o = &o;
    run.rounds_left = HAND_OVERS - 1;
    run_members(&run);
    double seconds = (double)(run.end_ns - run.begin_ns) / 1e9;
    printf("{\"seconds\": %.4f, \"records_per_s\": %.1f, \"tally\": {", seconds, seconds > 0 ? o.records / seconds : 0);
    print_tally(&run.tally, seconds > 0 ? seconds : 1, 1);
    puts("}}");
    return 0;
}
