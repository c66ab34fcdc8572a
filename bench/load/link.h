/* link: a connection that never blocks, with its place in an epoll and a window of requests under way.
 *
 * Answers come in the order of the requests: a correlation id that is not the one awaited ends the run. */
#ifndef HEADGATE_LINK_H
#define HEADGATE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

struct link {
    int socket, epoll;
    void *owner;
    uint32_t window, next_correlation, awaited_correlation;
    uint64_t *sent_at_ns; /* by correlation id modulo the window */
    uint8_t *in;
    size_t in_used, in_size;
    uint8_t *out; /* what the socket has not taken yet */
    size_t out_used, out_size;
    bool waits_for_room;
};

/* Connects to the port on this machine; `owner` comes with the epoll's events. */
void open_link(struct link *link, int epoll, int port, uint32_t window, void *owner);

bool is_window_open(const struct link *link);

/* Where to write a request of up to `bytes`. */
uint8_t *request_room(struct link *link, size_t bytes);

/* Sends what was written there: puts size and correlation id in, and notes the time. */
void post(struct link *link, size_t size);

/* Writes what is waiting; asks epoll to say when there is room for the rest. */
void flush(struct link *link);

/* Gets an answer, from behind its correlation id on, and how long it took. */
typedef void answer_taker(void *context, struct cursor answer, uint64_t took_ns);

/* Reads what has come; `on_answer` gets every whole answer. */
void receive(struct link *link, answer_taker *on_answer, void *context);

/* What an owner does when its link has room again, or when something `has_come`. */
typedef void link_server(void *owner, bool has_come);

/* Waits a little for any of the epoll's links, and serves those that are ready. */
void serve_links(int epoll, link_server *serve);

#endif
