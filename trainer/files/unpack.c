/* unpack.c - see unpack.h.
 *
 * zlib's own gzread ends without a word where the bytes after a member are no member. So the members are counted here, and zlib's
 * inflate unpacks one at a time. */
#include "trainer/files/unpack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { INPUT_BYTES = 1 << 17 };

struct tr_unpack {
    int         file;
    const char *path;
    z_stream    stream;
    bool        is_inside;            /* a member has begun and has not ended */
    bool        is_over;              /* nothing but zeros followed the last member */
    int64_t     member;               /* number of members that have begun */
    int64_t     member_begin;         /* place of the last one in the file */
    int64_t     input_begin;          /* place of `input` in the file */
    size_t      input_size;
    uint8_t     input[INPUT_BYTES];
};

tr_unpack *tr_unpack_new(int file, const char *path)
{
    enum { ONLY_GZIP = 16 };
    tr_unpack *unpack = calloc(1, sizeof *unpack);

    if (!unpack)
        return NULL;
    unpack->file = file;
    unpack->path = path;
    if (inflateInit2(&unpack->stream, MAX_WBITS + ONLY_GZIP) != Z_OK) {
        free(unpack);
        return NULL;
    }
    return unpack;
}

void tr_unpack_free(tr_unpack *unpack)
{
    if (!unpack)
        return;
    inflateEnd(&unpack->stream);
    free(unpack);
}

static int64_t place(const tr_unpack *unpack)
{
    return unpack->input_begin + (int64_t)(unpack->input_size - unpack->stream.avail_in);
}

static tr_status damaged(const tr_unpack *unpack, const char *what)
{
    return tr_fail(TR_EFORMAT, "data: '%s' cannot be unpacked: byte %lld, in member %lld, which begins at byte %lld: %s", unpack->path,
                   (long long)place(unpack), (long long)unpack->member, (long long)unpack->member_begin, what);
}

/* Get packed bytes if none are left. *is_end: the file has no more. */
static tr_status refill(bool *is_end, tr_unpack *unpack)
{
    ssize_t n;

    *is_end = false;
    if (unpack->stream.avail_in)
        return TR_OK;
    while ((n = read(unpack->file, unpack->input, sizeof unpack->input)) < 0 && errno == EINTR)
        ;
    if (n < 0)
        return tr_fail(TR_EIO, "data: '%s' cannot be read: %s", unpack->path, strerror(errno));
    unpack->input_begin += (int64_t)unpack->input_size;
    unpack->input_size = (size_t)n;
    unpack->stream.next_in = unpack->input;
    unpack->stream.avail_in = (unsigned)n;
    *is_end = n == 0;
    return TR_OK;
}

/* Zeros follow the last member: they must reach to the end of the file. */
static tr_status skip_zeros(tr_unpack *unpack)
{
    const int64_t begin = place(unpack);
    bool          is_end;

    for (;;) {
        TR_TRY(refill(&is_end, unpack));
        if (is_end)
            return TR_OK;
        if (*unpack->stream.next_in)
            return tr_fail(TR_EFORMAT,
                           "data: '%s' cannot be unpacked: after member %lld the bytes %lld to %lld are zeros, and more follows; "
                           "is there a hole in the file?",
                           unpack->path, (long long)unpack->member, (long long)begin, (long long)place(unpack) - 1);
        unpack->stream.next_in++;
        unpack->stream.avail_in--;
    }
}

/* Between two members: begin the next one, or find the end. */
static tr_status begin_member(tr_unpack *unpack)
{
    enum { first_byte = 0x1f };
    bool is_end;

    TR_TRY(refill(&is_end, unpack));
    unpack->is_over = is_end && unpack->member;
    if (!is_end && unpack->member && *unpack->stream.next_in == 0) {
        TR_TRY(skip_zeros(unpack));
        unpack->is_over = true;
    }
    if (unpack->is_over)
        return TR_OK;
    unpack->member++;
    unpack->member_begin = place(unpack);
    unpack->is_inside = true;
    inflateReset(&unpack->stream);
    if (is_end || *unpack->stream.next_in == first_byte)
        return TR_OK;
    return unpack->member == 1 ? tr_fail(TR_EFORMAT, "data: '%s' is not packed by gzip, as its name says", unpack->path)
                               : damaged(unpack, "expected another member, or the end of the file");
}

/* Unpack what there is of the open member. */
static tr_status inside_member(tr_unpack *unpack)
{
    bool is_end;

    TR_TRY(refill(&is_end, unpack));
    if (is_end)
        return damaged(unpack, "unexpected end of file");
    const int code = inflate(&unpack->stream, Z_NO_FLUSH);
    unpack->is_inside = code != Z_STREAM_END;
    if (code == Z_OK || code == Z_BUF_ERROR || code == Z_STREAM_END)
        return TR_OK;
    if (code == Z_MEM_ERROR)
        return tr_fail(TR_ENOMEM, "data: no memory for unpacking '%s'", unpack->path);
    return damaged(unpack, unpack->stream.msg ? unpack->stream.msg : "the bytes are no gzip");
}

tr_status tr_unpack_read(size_t *got, tr_unpack *unpack, char *to, size_t size)
{
    const unsigned room = size < 1 << 30 ? (unsigned)size : 1 << 30;

    unpack->stream.next_out = (uint8_t *)to;
    unpack->stream.avail_out = room;
    while (unpack->stream.avail_out == room && !unpack->is_over)
        TR_TRY(unpack->is_inside ? inside_member(unpack) : begin_member(unpack));
    *got = room - unpack->stream.avail_out;
    return TR_OK;
}
