/* loopback.c - makes MPI's daemon of a job on one host listen on this host alone.
 *
 * mpirun has a port for daemons of other hosts. It listens on all interfaces, and no parameter of Open MPI 4.1 or 5 changes that. A job
 * of one host has no such daemons. `trireme launch` loads this library into mpirun by LD_PRELOAD, and removes it again from the
 * environment of the ranks.
 *
 * What must stay true: only the address "any" is replaced, so that all other sockets are as mpirun wants them. */
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

typedef int bind_fn(int fd, const struct sockaddr *address, socklen_t length);

static int bind_v4(bind_fn *real, int fd, const struct sockaddr_in *any)
{
    struct sockaddr_in own = *any;

    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return real(fd, (const struct sockaddr *)&own, sizeof own);
}

static int bind_v6(bind_fn *real, int fd, const struct sockaddr_in6 *any)
{
    struct sockaddr_in6 own = *any;

    own.sin6_addr = in6addr_loopback;
    if (real(fd, (const struct sockaddr *)&own, sizeof own) == 0)
        return 0;
    if (errno != EADDRNOTAVAIL)                    /* this host has no IPv6, or its loopback has none */
        return -1;
    return real(fd, (const struct sockaddr *)any, sizeof *any);
}

/* Called instead of the C library's function. */
__attribute__((visibility("default"))) int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    bind_fn *const real = (bind_fn *)dlsym(RTLD_NEXT, "bind");

    if (address && address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        if (in->sin_addr.s_addr == htonl(INADDR_ANY))
            return bind_v4(real, fd, in);
    }
    if (address && address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)address;
        if (IN6_IS_ADDR_UNSPECIFIED(&in->sin6_addr))
            return bind_v6(real, fd, in);
    }
    return real(fd, address, length);
}
