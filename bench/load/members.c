/* members: lives the lives of many members of consumer groups (KIP-848), and tells how long their group took to
 * settle and how many heartbeats a second were answered from then on.
 *
 *   members --port 9092 --groups 100 --members 10 --topic load --partitions 100 --seconds 5
 *
 * One thread and one epoll. Members sit on connections in turn, and a connection asks for one after the other, with
 * `--window` heartbeats under way. Each member does what a consumer does: it joins, takes the assignment it is given,
 * lets go what is no longer in it, says in its next heartbeat what it has, and otherwise says nothing but its epoch.
 *
 * 1. Joining ends when every group is settled, as its members see it: all in one epoch, nobody has anything to
 *    report, each partition has one owner, and loads are even within one. The broker must call them stable then.
 * 2. For `--seconds` after `--warm-up`, they go on with heartbeats that say nothing: that is counted. A group that
 *    moves meanwhile ends the run.
 * 3. They leave, unless they are to `--stay 1`.
 *
 * With `--broker` and its process id it tells what processor time the broker used in the first and the second.
 * `--topics 1` is the topic itself; more are `topic-000`, `topic-001` ...; `--partitions` are those of all of them.
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

enum { CONSUMER_GROUP_HEARTBEAT = 68, HEARTBEAT_VERSION = 1, CONSUMER_GROUP_DESCRIBE = 69, DESCRIBE_VERSION = 0 };
enum { TOPIC_ID_BYTES = 16, OWNED_BYTES = TOPIC_ID_BYTES + 4, NAME_BYTES = 64, FIXED_BYTES = 64 };
enum { JOIN_EPOCH = 0, LEAVE_EPOCH = -1, REBALANCE_TIMEOUT_MS = 300000 };

#define GROUP_FORMAT "%s-%06d"

enum phase { JOINING, STEADY, LEAVING };

struct options {
    int port, groups, members, topics, partitions, connections, window, stay, broker;
    double seconds, warm_up_seconds, patience_seconds;
    const char *topic, *prefix;
};

struct group {
    uint32_t owned;    /* partitions, by all members */
    uint32_t owing;    /* members that have not joined, or have something to report */
    bool is_moved;     /* since it was looked at */
    bool is_settled;
};

struct member {
    struct group *group;
    int32_t epoch;
    bool owes;         /* it has something to report: that it joins, or what it has now */
    uint8_t *names;    /* group and member id as they stand in a request */
    size_t names_size;
    uint8_t *owned;    /* topics and partitions as they stand in answers and requests */
    size_t owned_size;
    uint32_t owned_count;
};

struct connection {
    struct link link;
    struct run *run;
    uint32_t first;    /* its members are first, first + connections ... */
    uint32_t members, left;
};

struct run {
    const struct options *o;
    enum phase phase;
    struct group *groups;
    struct member *members;
    uint32_t member_count, settled_groups, joins_to_send, joins_to_answer;
    uint64_t first_join_ns, last_join_ns, all_joined_ns, settled_ns;
    double settling_processor_s, steady_processor_s; /* of the broker */
    struct tally settling, steady;
};

static struct member *member_at(const struct connection *c, uint32_t correlation) {
    return &c->run->members[c->first + correlation % c->members * (uint32_t)c->run->o->connections];
}

/* ---- requests ------------------------------------------------------------------------------------------------ */

static uint8_t *put_topics(uint8_t *at, const struct options *o) {
    char name[NAME_BYTES];
    at = put_varint(at, (uint32_t)o->topics + 1);
    for (int i = 0; i < o->topics; i++) {
        snprintf(name, sizeof name, o->topics > 1 ? "%s-%03d" : "%s", o->topic, i);
        at = put_text(at, name);
    }
    return at;
}

static void post_heartbeat(struct connection *c, struct member *m) {
    const struct options *o = c->run->o;
    bool joins = c->run->phase != LEAVING && m->epoch == JOIN_EPOCH;
    size_t room = FIXED_BYTES + m->names_size + m->owned_size + (joins ? (size_t)o->topics * NAME_BYTES : 0);
    uint8_t *request = request_room(&c->link, room), *at = put_header(request, CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION);
    memcpy(at, m->names, m->names_size);
    at = put_number(at + m->names_size, c->run->phase == LEAVING ? (uint32_t)LEAVE_EPOCH : (uint32_t)m->epoch, 4);
    at = put_varint(at, 0); /* instance id null */
    at = put_varint(at, 0); /* rack null */
    at = put_number(at, joins ? REBALANCE_TIMEOUT_MS : 0xffffffff, 4);
    at = joins ? put_topics(at, o) : put_varint(at, 0);
    at = put_varint(at, 0); /* regular expression null */
    at = put_varint(at, 0); /* assignor null */
    if (m->owes && c->run->phase != LEAVING) {
        memcpy(at, m->owned, m->owned_size);
        at += m->owned_size;
    } else {
        at = put_varint(at, 0);
    }
    post(&c->link, (size_t)(put_varint(at, 0) - request));
}

/* ---- answers ------------------------------------------------------------------------------------------------- */

static uint32_t skip_partitions(struct cursor *c) {
    uint32_t count = 0;
    for (uint32_t topics = take_array(c); topics; topics--) {
        need(c, TOPIC_ID_BYTES);
        c->at += TOPIC_ID_BYTES;
        uint32_t partitions = take_array(c);
        need(c, (size_t)partitions * 4);
        c->at += (size_t)partitions * 4;
        count += partitions;
        skip_tags(c);
    }
    return count;
}

static void take_assignment(struct member *m, struct cursor *c) {
    const uint8_t *begin = c->at;
    uint32_t count = skip_partitions(c);
    m->group->owned += count - m->owned_count;
    m->owned_count = count;
    m->owned_size = (size_t)(c->at - begin);
    free(m->owned);
    m->owned = room_for(m->owned_size);
    memcpy(m->owned, begin, m->owned_size);
    skip_tags(c);
}

/* A member in the phase of joining: what it said has arrived, and what it is told is for its next heartbeat. */
static void live_on(struct member *m, int32_t epoch, bool is_assigned) {
    struct group *group = m->group;
    group->is_moved |= epoch != m->epoch || is_assigned || m->owes;
    group->owing += (uint32_t)is_assigned - (uint32_t)m->owes;
    m->owes = is_assigned;
    m->epoch = epoch;
}

static void take_answer(void *context, struct cursor c, uint64_t took_ns) {
    struct connection *connection = context;
    struct run *run = connection->run;
    struct member *m = member_at(connection, connection->link.awaited_correlation - 1);
    skip_tags(&c);
    take_number(&c, 4); /* throttle time */
    uint64_t error = take_number(&c, 2);
    note_error(&run->steady, error);
    if (error && !run->steady.counting) fail("a heartbeat is refused with error %d", (int16_t)error);
    skip_text(&c);
    skip_text(&c);
    int32_t epoch = (int32_t)take_number(&c, 4);
    take_number(&c, 4); /* interval */
    bool is_assigned = (int8_t)take_number(&c, 1) > 0;
    if (is_assigned) take_assignment(m, &c);
    skip_tags(&c);
    if (c.at != c.end) fail("an answer is %td bytes longer than its fields", c.end - c.at);
    if (run->phase == JOINING) {
        note_latency(&run->settling, took_ns);
        if (m->epoch == JOIN_EPOCH && !--run->joins_to_answer) run->all_joined_ns = now_ns();
        live_on(m, epoch, is_assigned);
    } else if (run->phase == STEADY) {
        note_latency(&run->steady, took_ns);
        if (!error && (is_assigned || epoch != m->epoch)) fail("a settled group moved, to epoch %d", epoch);
    }
}

/* ---- whether a group is settled -------------------------------------------------------------------------------- */

static int compare_owned(const void *one, const void *other) { return memcmp(one, other, OWNED_BYTES); }

/* No partition has two owners. */
static void check_owners(const struct member *members, const struct options *o) {
    uint8_t *all = room_for((size_t)o->partitions * OWNED_BYTES), *at = all;
    for (int i = 0; i < o->members; i++) {
        if (!members[i].owned_count) continue;
        struct cursor c = {members[i].owned, members[i].owned + members[i].owned_size};
        for (uint32_t topics = take_array(&c); topics; topics--) {
            const uint8_t *topic_id = c.at;
            c.at += TOPIC_ID_BYTES;
            for (uint32_t partitions = take_array(&c); partitions; partitions--, at += OWNED_BYTES) {
                memcpy(at, topic_id, TOPIC_ID_BYTES);
                put_number(at + TOPIC_ID_BYTES, take_number(&c, 4), 4);
            }
            skip_tags(&c);
        }
    }
    qsort(all, (size_t)o->partitions, OWNED_BYTES, compare_owned);
    for (int i = 1; i < o->partitions; i++)
        if (!compare_owned(all + i * OWNED_BYTES, all + (i - 1) * OWNED_BYTES)) fail("a partition has two owners");
    free(all);
}

static bool is_settled(const struct member *members, const struct options *o) {
    uint32_t most = 0, least = UINT32_MAX;
    for (int i = 0; i < o->members; i++) {
        if (members[i].epoch != members[0].epoch) return false;
        if (members[i].owned_count > most) most = members[i].owned_count;
        if (members[i].owned_count < least) least = members[i].owned_count;
    }
    return most - least <= 1;
}

/* Looks at a member's group after an answer to it; a settled one is settled for good. */
static void look_at(struct run *run, const struct member *m) {
    struct group *group = m->group;
    if (!group->is_moved || group->is_settled || group->owing || group->owned != (uint32_t)run->o->partitions) return;
    group->is_moved = false;
    const struct member *members = &run->members[(group - run->groups) * run->o->members];
    if (!is_settled(members, run->o)) return;
    check_owners(members, run->o);
    group->is_settled = true;
    if (++run->settled_groups == (uint32_t)run->o->groups) run->settled_ns = now_ns();
}

/* ---- what the broker says of the groups -------------------------------------------------------------------------- */

static void take_description(void *context, struct cursor c, uint64_t took_ns) {
    (void)context, (void)took_ns;
    skip_tags(&c);
    take_number(&c, 4); /* throttle time */
    if (take_array(&c) != 1) fail("one group was to be described");
    uint64_t error = take_number(&c, 2);
    if (error) fail("a group is not described, with error %d", (int16_t)error);
    skip_text(&c);
    skip_text(&c);
    uint32_t length = take_varint(&c) - 1;
    need(&c, length);
    if (length != strlen("Stable") || memcmp(c.at, "Stable", length))
        fail("a group that its members find settled is %.*s to the broker", (int)length, c.at);
}

static void check_states(const struct options *o) {
    struct link link;
    char name[NAME_BYTES];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    open_link(&link, epoll, o->port, 1, &link);
    for (int group = 0; group < o->groups; group++) {
        uint8_t *request = request_room(&link, FIXED_BYTES + NAME_BYTES);
        uint8_t *at = put_varint(put_header(request, CONSUMER_GROUP_DESCRIBE, DESCRIBE_VERSION), 2);
        snprintf(name, sizeof name, GROUP_FORMAT, o->prefix, group);
        at = put_number(put_text(at, name), 0, 1); /* authorized operations: no */
        post(&link, (size_t)(put_varint(at, 0) - request));
        while (!is_window_open(&link)) {
            struct epoll_event ready;
            flush(&link);
            if (epoll_wait(epoll, &ready, 1, -1) > 0 && ready.events & ~(uint32_t)EPOLLOUT)
                receive(&link, take_description, NULL);
        }
    }
}

/* ---- the run ------------------------------------------------------------------------------------------------- */

static void make_members(struct run *run) {
    const struct options *o = run->o;
    char name[NAME_BYTES];
    run->member_count = run->joins_to_send = run->joins_to_answer = (uint32_t)(o->groups * o->members);
    run->groups = room_for(sizeof *run->groups * (size_t)o->groups);
    run->members = room_for(sizeof *run->members * run->member_count);
    for (uint32_t i = 0; i < run->member_count; i++) {
        struct member *m = &run->members[i];
        int group = (int)i / o->members;
        *m = (struct member){.group = &run->groups[group], .owes = true, .owned_size = 1};
        m->group->owing++;
        m->owned = put_varint(room_for(1), 1) - 1; /* an empty array */
        m->names = room_for(2 * NAME_BYTES);
        snprintf(name, sizeof name, GROUP_FORMAT, o->prefix, group);
        uint8_t *at = put_text(m->names, name);
        snprintf(name, sizeof name, "member-%015u", i); /* as long as the ids that Java's consumers make */
        m->names_size = (size_t)(put_text(at, name) - m->names);
    }
}

static struct connection *open_connections(struct run *run, int epoll) {
    const struct options *o = run->o;
    struct connection *all = room_for(sizeof *all * (size_t)o->connections);
    if (run->member_count < (uint32_t)o->connections)
        fail("%d connections for %u members: each is to have one", o->connections, run->member_count);
    for (uint32_t i = 0; i < (uint32_t)o->connections; i++) {
        uint32_t members = (run->member_count - i - 1) / (uint32_t)o->connections + 1;
        if (members < (uint32_t)o->window) fail("a window of %d on a connection of %u members", o->window, members);
        all[i].run = run;
        all[i].first = i;
        all[i].members = members;
        open_link(&all[i].link, epoll, o->port, (uint32_t)o->window, &all[i]);
    }
    return all;
}

static void ask(struct connection *c) {
    struct run *run = c->run;
    while (is_window_open(&c->link)) {
        struct member *m = member_at(c, c->link.next_correlation);
        if (run->phase == LEAVING && c->left++ >= c->members) break;
        if (run->phase == JOINING && m->epoch == JOIN_EPOCH) {
            uint64_t now = now_ns();
            if (run->joins_to_send == run->member_count) run->first_join_ns = now;
            if (!--run->joins_to_send) run->last_join_ns = now;
        }
        post_heartbeat(c, m);
    }
    flush(&c->link);
}

static void serve(void *owner, bool has_come) {
    struct connection *c = owner;
    struct run *run = c->run;
    uint32_t answered = c->link.awaited_correlation;
    if (has_come) receive(&c->link, take_answer, c);
    for (; run->phase == JOINING && answered != c->link.awaited_correlation; answered++)
        look_at(run, member_at(c, answered));
    ask(c);
}

static bool is_anything_under_way(const struct connection *all, int connections) {
    for (int i = 0; i < connections; i++)
        if (all[i].link.next_correlation != all[i].link.awaited_correlation) return true;
    return false;
}

/* What the broker has used so far, all threads added up; 0 if it is not known. */
static double processor_s(const struct options *o) {
    char path[64], stat[1024] = "";
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", o->broker);
    FILE *file = o->broker ? fopen(path, "r") : NULL;
    if (!file) return 0;
    stat[fread(stat, 1, sizeof stat - 1, file)] = 0;
    fclose(file);
    const char *after_name = strrchr(stat, ')'); /* the name, in brackets, may hold anything */
    if (!after_name || sscanf(after_name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
        fail("%s says something else than expected", path);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static double run_all(struct run *run) {
    const struct options *o = run->o;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    make_members(run);
    struct connection *all = open_connections(run, epoll);
    uint64_t give_up = now_ns() + (uint64_t)(o->patience_seconds * 1e9);
    double used_s = processor_s(o);
    run->settling.counting = true;
    for (int i = 0; i < o->connections; i++) ask(&all[i]);
    while (!run->settled_ns) {
        serve_links(epoll, serve);
        if (now_ns() > give_up)
            fail("%u of %d groups are settled after %g s", run->settled_groups, o->groups, o->patience_seconds);
    }
    run->settling_processor_s = processor_s(o) - used_s;
    check_states(o);
    run->phase = STEADY;
    struct counted_time time = counted_time(o->warm_up_seconds, o->seconds);
    bool is_warm = false;
    while (o->seconds > 0 && goes_on(&time, &run->steady)) {
        if (!is_warm && run->steady.counting) used_s = processor_s(o);
        is_warm = run->steady.counting;
        serve_links(epoll, serve);
    }
    run->steady.counting = false;
    run->steady_processor_s = processor_s(o) - used_s;
    if (!o->stay) {
        run->phase = LEAVING;
        for (int i = 0; i < o->connections; i++) ask(&all[i]);
        while (is_anything_under_way(all, o->connections)) serve_links(epoll, serve);
    }
    return counted_seconds(&time);
}

/* ---- the command line -------------------------------------------------------------------------------------- */

static struct options read_options(int count, char **words) {
    struct options o = {.groups = 1, .members = 1, .topics = 1, .partitions = 1, .connections = 16, .window = 1,
                        .patience_seconds = 120, .topic = "load", .prefix = "members"};
    const struct option known[] = {
        {"--port", .whole = &o.port, .low = 1, .high = 65535},
        {"--groups", .whole = &o.groups, .low = 1, .high = 1e6},
        {"--members", .whole = &o.members, .low = 1, .high = 1e5},
        {"--topics", .whole = &o.topics, .low = 1, .high = 1000},
        {"--partitions", .whole = &o.partitions, .low = 1, .high = 1e6},
        {"--connections", .whole = &o.connections, .low = 1, .high = 10000},
        {"--window", .whole = &o.window, .low = 1, .high = 10000},
        {"--seconds", .real = &o.seconds, .low = 0, .high = 3600},
        {"--warm-up", .real = &o.warm_up_seconds, .low = 0, .high = 3600},
        {"--patience", .real = &o.patience_seconds, .low = 1, .high = 3600},
        {"--broker", .whole = &o.broker, .low = 0, .high = 1e9},
        {"--stay", .whole = &o.stay, .low = 0, .high = 1},
        {"--topic", .text = &o.topic, .high = NAME_BYTES - 9},
        {"--prefix", .text = &o.prefix, .high = NAME_BYTES - 9},
        {0},
    };
    read_words(count, words, known, "members.c");
    if (!o.port) fail("--port is needed");
    return o;
}

static double seconds_between(uint64_t from_ns, uint64_t to_ns) { return (double)(to_ns - from_ns) / 1e9; }

int main(int count, char **words) {
    static struct run run;
    struct options o = read_options(count, words);
    run.o = &o;
    double seconds = run_all(&run);
    if (o.seconds > 0 && !run.steady.answers) fail("no answer in %g s", o.seconds);
    printf("{\"join_s\": %.4f, \"settle_s\": %.4f, \"settling_processor_s\": %.2f, \"steady_processor_s\": %.2f,",
           seconds_between(run.first_join_ns, run.all_joined_ns), seconds_between(run.last_join_ns, run.settled_ns),
           run.settling_processor_s, run.steady_processor_s);
    printf(" \"settling\": {");
    print_tally(&run.settling, seconds_between(run.first_join_ns, run.settled_ns), 1);
    printf("}, \"steady\": {");
    print_tally(&run.steady, o.seconds > 0 ? seconds : 1, 1);
    puts("}}");
    return 0;
}
