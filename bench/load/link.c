#define _GNU_SOURCE
#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "wire.h"

enum { LENGTH_BYTES = 4, CORRELATION_BYTES = 4, CORRELATION_AT = 8 };
enum { BUFFER_BYTES = 64 * 1024, LARGEST_ANSWER_BYTES = 1 << 30 };

static int connect_to(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof to)) fail("port %d: %s", port, strerror(errno));
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (fcntl(s, F_SETFL, O_NONBLOCK)) fail("a socket that may block: %s", strerror(errno));
    return s;
}

void open_link(struct link *link, int epoll, int port, uint32_t window, void *owner) {
    *link = (struct link){.socket = connect_to(port), .epoll = epoll, .owner = owner, .window = window};
    link->sent_at_ns = room_for(sizeof *link->sent_at_ns * window);
    link->in_size = link->out_size = BUFFER_BYTES;
    link->in = room_for(link->in_size);
    link->out = room_for(link->out_size);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = owner};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, link->socket, &event)) fail("epoll: %s", strerror(errno));
}

static void grow(uint8_t **bytes, size_t *size, size_t wanted) {
    while (*size < wanted) *size *= 2;
    *bytes = realloc(*bytes, *size);
    if (!*bytes) fail("no memory for %zu bytes", *size);
}

bool is_window_open(const struct link *link) {
    return link->next_correlation - link->awaited_correlation < link->window;
}

uint8_t *request_room(struct link *link, size_t bytes) {
    if (link->out_used + bytes > link->out_size) grow(&link->out, &link->out_size, link->out_used + bytes);
    return link->out + link->out_used;
}

void post(struct link *link, size_t size) {
    uint8_t *request = link->out + link->out_used;
    put_number(request, size - LENGTH_BYTES, LENGTH_BYTES);
    put_number(request + CORRELATION_AT, link->next_correlation, CORRELATION_BYTES);
    link->out_used += size;
    link->sent_at_ns[link->next_correlation++ % link->window] = now_ns();
}

void flush(struct link *link) {
    size_t written = 0;
    while (written < link->out_used) {
        ssize_t n = send(link->socket, link->out + written, link->out_used - written, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) fail("the broker took no more: %s", strerror(errno));
        written += (size_t)n;
    }
    memmove(link->out, link->out + written, link->out_used -= written);
    bool waits = link->out_used > 0;
    if (waits != link->waits_for_room) {
        struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.ptr = link->owner};
        if (epoll_ctl(link->epoll, EPOLL_CTL_MOD, link->socket, &event)) fail("epoll: %s", strerror(errno));
        link->waits_for_room = waits;
    }
}

void receive(struct link *link, answer_taker *on_answer, void *context) {
    ssize_t n = read(link->socket, link->in + link->in_used, link->in_size - link->in_used);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) fail("the broker closed a connection%s%s", n ? ": " : "", n ? strerror(errno) : "");
    link->in_used += (size_t)n;
    size_t at = 0;
    while (link->in_used - at >= LENGTH_BYTES) {
        struct cursor head = {link->in + at, link->in + at + LENGTH_BYTES};
        size_t size = (size_t)take_number(&head, LENGTH_BYTES);
        if (size > LARGEST_ANSWER_BYTES) fail("an answer of %zu bytes", size);
        if (size + LENGTH_BYTES > link->in_size) grow(&link->in, &link->in_size, size + LENGTH_BYTES);
        if (link->in_used - at - LENGTH_BYTES < size) break;
        struct cursor answer = {link->in + at + LENGTH_BYTES, link->in + at + LENGTH_BYTES + size};
        uint32_t correlation = (uint32_t)take_number(&answer, CORRELATION_BYTES);
        if (correlation != link->awaited_correlation)
            fail("answer %u came where %u was awaited", correlation, link->awaited_correlation);
        on_answer(context, answer, now_ns() - link->sent_at_ns[link->awaited_correlation++ % link->window]);
        at += size + LENGTH_BYTES;
    }
    memmove(link->in, link->in + at, link->in_used -= at);
}

void serve_links(int epoll, link_server *serve) {
    struct epoll_event ready[256];
    int events = epoll_wait(epoll, ready, 256, 50);
    for (int i = 0; i < events; i++) serve(ready[i].data.ptr, ready[i].events & ~(uint32_t)EPOLLOUT);
}
