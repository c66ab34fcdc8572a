#include "tally.h"

#include <stdio.h>

#include "wire.h"

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

void note_latency(struct tally *tally, uint64_t ns) {
    if (!tally->counting) return;
    tally->answers++;
    tally->latency[bucket_of(ns)]++;
    if (ns > tally->slowest_ns) tally->slowest_ns = ns;
}

/* Errors are kept one up, so that UNKNOWN_SERVER_ERROR, -1, has a place too. */
void note_error(struct tally *tally, uint64_t wire) {
    int code = (int16_t)wire;
    if (code < -1 || code + 1 >= ERROR_CODES) fail("error code %d is none of Kafka's", code);
    if (code && tally->counting) tally->errors[code + 1]++;
}

struct counted_time counted_time(double warm_up_seconds, double seconds) {
    uint64_t from_ns = now_ns() + (uint64_t)(warm_up_seconds * 1e9);
    return (struct counted_time){.from_ns = from_ns, .end_ns = from_ns + (uint64_t)(seconds * 1e9)};
}

bool goes_on(struct counted_time *time, struct tally *tally) {
    time->now_ns = now_ns();
    if (time->now_ns >= time->end_ns) return false;
    if (!tally->counting && time->now_ns >= time->from_ns) {
        tally->counting = true;
        time->from_ns = time->now_ns;
    }
    return true;
}

double counted_seconds(const struct counted_time *time) { return (double)(time->now_ns - time->from_ns) / 1e9; }

void print_tally(const struct tally *tally, double seconds, int width) {
    double requests = (double)tally->answers / seconds;
    printf("\"requests\": %llu, \"seconds\": %.3f, \"requests_per_s\": %.1f, \"offsets_per_s\": %.1f,",
           (unsigned long long)tally->answers, seconds, requests, requests * width);
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
    putchar('}');
}
