/* trireme_board.h - the C API by which trainers exchange values.
 *
 * Each trainer posts a few bytes on server 0's board and gets the posts of the others. Barrier, broadcast, sums and lists of all
 * trainers' values are made of this (python/trireme/distributed/collectives.py). Do not use it for gradients: a post has 256 KiB at
 * most.
 *
 * Collectives are numbered: the n-th of each trainer belongs to the n-th of all others. A trainer that has left takes no part. The
 * others wait for a dead trainer that a standby will replace. A complete collective does not change: a trainer that runs its script
 * again posts again, and gets what was posted first. Servers keep the newest 8 MiB of complete collectives, in memory that outlives
 * them. */
#ifndef TRIREME_BOARD_H
#define TRIREME_BOARD_H

#include "pserver/trireme_dist.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TR_JOB_POST_LIMIT = 1 << 18 };

typedef enum tr_job_until {
    TR_JOB_NOW = 0,                   /* answer at once with the posts that there are */
    TR_JOB_ALL = 1,                   /* answer when all trainers have posted that have not left */
    TR_JOB_ONE = 2                    /* answer when trainer `of` has posted, has left, or is lost */
} tr_job_until;

typedef struct tr_job_post {
    int64_t      number;              /* of a collective: 1, 2, ...; 0: a notice, which has a name. A trainer posts each once */
    const char  *name;                /* of a notice: its name, up to 4 KiB; NULL in a collective */
    const char  *call;                /* of a collective: the script's call, which must be the same in all trainers: "all_reduce(float32[3],
                                       * op='sum')" */
    const char  *line;                /* for messages: the line of the script, "train.py:41"; may be NULL */
    const void  *data;                /* copied; NULL: only ask, post nothing */
    int64_t      bytes;               /* 0 .. TR_JOB_POST_LIMIT */
    tr_job_until until;
    int          of;
    int64_t      step;                /* steps that the script had made before this post; trainers that get the post come to this step
                                       * first */
    int          stops;               /* of a notice: it asks all trainers to end their training of this number (tr_job_stops); 0: it does
                                       * not */
} tr_job_post;

typedef struct tr_job_posted {
    int          count;               /* number of posts, in the order of the trainers */
    const int   *trainer;             /* the trainer of each post. These arrays stay valid until the next tr_job_post_begin */
    const int64_t *step;              /* tr_job_post.step of each post */
    const void *const *data;
    const int64_t *bytes;
    bool         is_forgotten;        /* the collective was complete, and is no longer kept; count is 0 */
    bool         is_awaited;          /* no answer yet: another trainer waits for this one's tr_job_setup, or for its next step. Make it
                                       * (tr_job_step_idle), and ask again without data */
    bool         is_lost;             /* TR_JOB_ONE: trainer `of` has died without this post, and no standby replaces it */
} tr_job_posted;

/* Post, and ask for the answer of tr_job_post_wait. Call it between two steps, also before tr_job_setup. Another call, or another order
 * of calls, than other trainers make ends the job: TR_EPEER, with both calls. TR_EEXIST: the answer to the last post has not come yet.
 * TR_EINVAL, TR_ERANGE: the post is wrong. */
TR_API tr_status tr_job_post_begin(tr_job *job, const tr_job_post *post);
/* Trainers count their trainings: 1, 2, ... Return the highest number of a training that a notice asks to end, as far as this trainer
 * has heard; 0: none. The call only reads memory. In mode sync all trainers have heard of a post that follows a trainer's step s when
 * their step s + 2 is over. */
TR_API int       tr_job_stops(const tr_job *job);
/* Make a step without a gradient, for other trainers that wait for it. The parameters are to be pulled before the next other step. Modes
 * with a common step (sync, average) or a bound between trainers (ssp) have such steps. */
TR_API tr_status tr_job_step_idle(tr_job *job);
/* Wait for the answer to the last post. TR_ETIMEOUT if it is not there after so many seconds: call it again. TR_EINVAL: nothing was
 * posted. */
TR_API tr_status tr_job_post_wait(tr_job *job, double seconds, tr_job_posted *out);

#ifdef __cplusplus
}
#endif
#endif
