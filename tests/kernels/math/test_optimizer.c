/* test_optimizer.c - every formula against scalars in double, some steps long; cuts and rows change no bit. */
#ifndef T
#include "kernels/math/arrays/rows.h"
#include "kernels/math/training/optimizer.h"

#include "tests/kernels/math/check.h"

enum { SGD, MOMENTUM, NESTEROV, ADAM, ADAGRAD, DECAYED_ADAGRAD, ADAMAX, ADADELTA, RMSPROP, RMSPROP_CENTERED, FTRL, FTRL_POWER,
       PROXIMAL_GD, PROXIMAL_ADAGRAD, OPTIMIZERS };

static const int BY_ROWS[] = {SGD, ADAM, ADAGRAD};      /* those that update some rows alone */

static const double LR = 0.1, A = 0.9, B = 0.99, EPS = 1e-4, L1 = 0.01, L2 = 0.02;

static double shrunk(double q, double lr)
{
    return copysign(fmax(fabs(q) - lr * L1, 0), q) / (1 + lr * L2);
}

/* One step of one element, as the literature writes it. */
static void exact_step(int which, double *p, double *s, double *u, double *v, double g, double power)
{
    double step, excess;
    switch (which) {
    case SGD: *p -= LR * g; break;
    case MOMENTUM: *s = A * *s + g, *p -= LR * *s; break;
    case NESTEROV: *s = A * *s + g, *p -= LR * (g + A * *s); break;
    case ADAM:
        *s = A * *s + (1 - A) * g, *u = B * *u + (1 - B) * g * g;
        *p -= LR * *s / (sqrt(*u) + EPS);
        break;
    case ADAGRAD: *s += g * g, *p -= LR * g / (sqrt(*s) + EPS); break;
    case DECAYED_ADAGRAD: *s = A * *s + (1 - A) * g * g, *p -= LR * g / (sqrt(*s) + EPS); break;
    case ADAMAX:
        *s = A * *s + (1 - A) * g, *u = fmax(fabs(g), B * *u + EPS);
        *p -= LR / (1 - A) * *s / *u;
        break;
    case ADADELTA:
        *s = A * *s + (1 - A) * g * g;
        step = -sqrt((*u + EPS) / (*s + EPS)) * g;
        *u = A * *u + (1 - A) * step * step, *p += step;
        break;
    case RMSPROP: *u = A * *u + (1 - A) * g * g, *s = B * *s + LR * g / sqrt(*u + EPS), *p -= *s; break;
    case RMSPROP_CENTERED:
        *u = A * *u + (1 - A) * g * g, *v = A * *v + (1 - A) * g;
        *s = B * *s + LR * g / sqrt(*u - *v * *v + EPS), *p -= *s;
        break;
    case FTRL: case FTRL_POWER:
        step = (pow(*s + g * g, power) - pow(*s, power)) / LR;
        *u += g - step * *p, *s += g * g;
        excess = copysign(L1, *u) - *u;
        *p = fabs(*u) > L1 ? excess / (pow(*s, power) / LR + 2 * L2) : 0;
        break;
    case PROXIMAL_GD: *p = shrunk(*p - LR * g, LR); break;
    default: *s += g * g, *p = shrunk(*p - LR * g / sqrt(*s), LR);
    }
}

#include "kernels/math/tools/each_float.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(formulas_match),     BOTH(cuts_change_no_bit),      BOTH(elsewhere_changes_no_bit),
        BOTH(rows_change_no_bit), BOTH(equal_rows_are_added_up), BOTH(the_rate_of_adam),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

static void NAME(step_from)(int which, T *p, T *s, T *u, T *v, const T *const *from, const T *g, int64_t n)
{
    const T lr = (T)LR, a = (T)A, b = (T)B, e = (T)EPS, l1 = (T)L1, l2 = (T)L2;
    switch (which) {
    case SGD:              NAME(tr_sgd)(p, from, g, lr, n); break;
    case MOMENTUM:         NAME(tr_momentum)(p, s, from, g, lr, a, false, n); break;
    case NESTEROV:         NAME(tr_momentum)(p, s, from, g, lr, a, true, n); break;
    case ADAM:             NAME(tr_adam)(p, s, u, from, g, lr, a, b, e, n); break;
    case ADAGRAD:          NAME(tr_adagrad)(p, s, from, g, lr, e, n); break;
    case DECAYED_ADAGRAD:  NAME(tr_decayed_adagrad)(p, s, from, g, lr, a, e, n); break;
    case ADAMAX:           NAME(tr_adamax)(p, s, u, from, g, lr, a, b, e, a, n); break;
    case ADADELTA:         NAME(tr_adadelta)(p, s, u, from, g, a, e, n); break;
    case RMSPROP:          NAME(tr_rmsprop)(p, s, u, NULL, from, g, lr, a, b, e, n); break;
    case RMSPROP_CENTERED: NAME(tr_rmsprop)(p, s, u, v, from, g, lr, a, b, e, n); break;
    case FTRL:             NAME(tr_ftrl)(p, s, u, from, g, lr, l1, l2, (T)-0.5, n); break;
    case FTRL_POWER:       NAME(tr_ftrl)(p, s, u, from, g, lr, l1, l2, (T)-0.7, n); break;
    case PROXIMAL_GD:      NAME(tr_proximal_gd)(p, from, g, lr, l1, l2, n); break;
    default:               NAME(tr_proximal_adagrad)(p, s, from, g, lr, l1, l2, n);
    }
}

static void NAME(step)(int which, T *p, T *s, T *u, T *v, const T *g, int64_t n)
{
    NAME(step_from)(which, p, s, u, v, NULL, g, n);
}

typedef struct {
    T *p, *s, *u, *v, *g;
} NAME(state);

static NAME(state) NAME(state_new)(int64_t n)
{
    NAME(state) x = {NAME(random)(n, 1, -1, 1), NAME(random)(n, 2, 0, 1), NAME(random)(n, 3, 0, 1), array_new(n, sizeof(T)),
                     NAME(random)(n, 5, -1, 1)};
    for (int64_t i = 0; i < n; i++)
        x.v[i] = x.u[i] / 3;                                  /* a mean whose square is below the mean square */
    return x;
}

static void NAME(state_free)(NAME(state) *x)
{
    free(x->p), free(x->s), free(x->u), free(x->v), free(x->g);
}

static void NAME(formulas_match)(void **state)
{
    (void)state;
    const int64_t sizes[] = {0, 1, 37, 20000};
    for (int which = 0; which < OPTIMIZERS; which++)
        for (int k = 0; k < 4; k++) {
            const int64_t n = sizes[k];
            NAME(state)   x = NAME(state_new)(n), start = NAME(state_new)(n);
            for (int round = 0; round < 3; round++)
                NAME(step)(which, x.p, x.s, x.u, x.v, x.g, n);
            for (int64_t i = 0; i < n; i++) {
                double p = (double)start.p[i], s = (double)start.s[i], u = (double)start.u[i], v = (double)start.v[i];
                for (int round = 0; round < 3; round++)
                    exact_step(which, &p, &s, &u, &v, (double)x.g[i], which == FTRL ? 0.5 : 0.7);
                const double units = sizeof(T) == 4 ? 200 : 1e9;              /* constants such as 0.1 are rounded to T */
                NAME(near)((double)x.p[i], p, 4, which >= RMSPROP ? 20 * units : units, "p", i);
                NAME(near)((double)x.s[i], s, 4, units, "s", i);
                NAME(near)((double)x.u[i], u, 8, units, "u", i);
                NAME(near)((double)x.v[i], v, 4, units, "v", i);
            }
            NAME(state_free)(&x), NAME(state_free)(&start);
        }
}

/* A parameter cut anywhere, as over several servers, ends with the same bits; so it does for any thread count. */
static void NAME(cuts_change_no_bit)(void **state)
{
    (void)state;
    enum { N = 30011 };
    const int64_t cuts[] = {0, 1, 2, 19, 1000, 16400, 16431, N};
    for (int which = 0; which < OPTIMIZERS; which++) {
        NAME(state) whole = NAME(state_new)(N), part = NAME(state_new)(N), start = NAME(state_new)(N);
        SAME_FOR_ALL_THREADS(whole.p, N * (int64_t)sizeof(T),
                             (memcpy(whole.p, start.p, N * sizeof(T)), memcpy(whole.s, start.s, N * sizeof(T)),
                              memcpy(whole.u, start.u, N * sizeof(T)), memcpy(whole.v, start.v, N * sizeof(T))),
                             NAME(step)(which, whole.p, whole.s, whole.u, whole.v, whole.g, N));
        for (int c = 0; c + 1 < (int)(sizeof cuts / sizeof *cuts); c++) {
            const int64_t at = cuts[c];
            NAME(step)(which, part.p + at, part.s + at, part.u + at, part.v + at, part.g + at, cuts[c + 1] - at);
        }
        assert_memory_equal(whole.p, part.p, N * sizeof(T));
        assert_memory_equal(whole.s, part.s, N * sizeof(T));
        assert_memory_equal(whole.u, part.u, N * sizeof(T));
        NAME(state_free)(&whole), NAME(state_free)(&part), NAME(state_free)(&start);
    }
}

/* What is read elsewhere stays as it is, and what is written is what would have been written in its place. */
static void NAME(elsewhere_changes_no_bit)(void **state)
{
    (void)state;
    enum { N = 20011 };
    for (int which = 0; which < OPTIMIZERS; which++) {
        NAME(state) here = NAME(state_new)(N), there = NAME(state_new)(N), read = NAME(state_new)(N), start = NAME(state_new)(N);
        const T *const from[TR_OPTIMIZER_ARRAYS] = {read.p, read.s, read.u, read.v};
        memset(there.p, 0, N * sizeof(T));
        NAME(step)(which, here.p, here.s, here.u, here.v, here.g, N);
        NAME(step_from)(which, there.p, there.s, there.u, there.v, from, here.g, N);
        assert_memory_equal(there.p, here.p, N * sizeof(T));
        assert_memory_equal(there.s, here.s, N * sizeof(T));
        assert_memory_equal(there.u, here.u, N * sizeof(T));
        assert_memory_equal(there.v, here.v, N * sizeof(T));
        assert_memory_equal(read.p, start.p, N * sizeof(T));
        assert_memory_equal(read.s, start.s, N * sizeof(T));
        NAME(state_free)(&here), NAME(state_free)(&there), NAME(state_free)(&read), NAME(state_free)(&start);
    }
}

static void NAME(rows_step)(int which, NAME(state) *x, const tr_grad_rows *g)
{
    switch (which) {
    case SGD:  NAME(tr_sgd_rows)(x->p, g, (T)LR); break;
    case ADAM: NAME(tr_adam_rows)(x->p, x->s, x->u, g, (T)LR, (T)A, (T)B, (T)EPS); break;
    default:   NAME(tr_adagrad_rows)(x->p, x->s, g, (T)LR, (T)EPS);
    }
}

/* The rows that are named change as in a dense step, the others not at all. */
static void NAME(rows_change_no_bit)(void **state)
{
    (void)state;
    enum { HEIGHT = 900, WIDTH = 17, COUNT = 600 };
    int64_t rows[COUNT];
    for (int i = 0; i < COUNT; i++)
        rows[i] = (i * 7) % HEIGHT;
    for (size_t by = 0; by < TR_COUNT(BY_ROWS); by++) {
        const int   which = BY_ROWS[by];
        NAME(state) dense = NAME(state_new)(HEIGHT * WIDTH), sparse = NAME(state_new)(HEIGHT * WIDTH),
                    start = NAME(state_new)(HEIGHT * WIDTH);
        T          *g = array_new(COUNT * WIDTH, sizeof(T));
        bool        touched[HEIGHT] = {false};
        for (int i = 0; i < COUNT; i++) {
            touched[rows[i]] = true;
            memcpy(g + i * WIDTH, dense.g + rows[i] * WIDTH, WIDTH * sizeof(T));
        }
        NAME(step)(which, dense.p, dense.s, dense.u, dense.v, dense.g, HEIGHT * WIDTH);
        SAME_FOR_ALL_THREADS(sparse.p, HEIGHT * WIDTH * (int64_t)sizeof(T),
                             (memcpy(sparse.p, start.p, HEIGHT * WIDTH * sizeof(T)), memcpy(sparse.s, start.s, HEIGHT * WIDTH * sizeof(T)),
                              memcpy(sparse.u, start.u, HEIGHT * WIDTH * sizeof(T))),
                             NAME(rows_step)(which, &sparse, &(tr_grad_rows){.values = g, .rows = rows, .count = COUNT, .width = WIDTH}));
        for (int r = 0; r < HEIGHT; r++) {
            const NAME(state) *want = touched[r] ? &dense : &start;
            assert_memory_equal(sparse.p + r * WIDTH, want->p + r * WIDTH, WIDTH * sizeof(T));
            assert_memory_equal(sparse.s + r * WIDTH, want->s + r * WIDTH, WIDTH * sizeof(T));
            assert_memory_equal(sparse.u + r * WIDTH, want->u + r * WIDTH, WIDTH * sizeof(T));
        }
        NAME(state_free)(&dense), NAME(state_free)(&sparse), NAME(state_free)(&start);
        free(g);
    }
}

/* Rows with the same number are added up in the order of the list. The number of threads does not matter. */
static void NAME(equal_rows_are_added_up)(void **state)
{
    (void)state;
    enum { HEIGHT = 700, WIDTH = 19, COUNT = 1500 };
    int64_t ids[COUNT], unique[COUNT], first[COUNT + 1], order[COUNT], work[2 * COUNT];
    for (int i = 0; i < COUNT; i++)
        ids[i] = i % 5 == 0 ? 3 : (int64_t)i * 311 % HEIGHT;
    const int64_t groups = tr_rows_group(unique, first, order, work, ids, COUNT);
    for (size_t by = 0; by < TR_COUNT(BY_ROWS); by++) {
        const int   which = BY_ROWS[by];
        NAME(state) want = NAME(state_new)(HEIGHT * WIDTH), have = NAME(state_new)(HEIGHT * WIDTH), start = NAME(state_new)(HEIGHT * WIDTH);
        T          *g = array_new(COUNT * WIDTH, sizeof(T)), *sums = array_new(COUNT * WIDTH, sizeof(T));
        for (int i = 0; i < COUNT * WIDTH; i++)
            g[i] = (T)((i * 37) % 101 - 50) / 64;
        NAME(tr_rows_sum_groups)(sums, g, first, order, groups, WIDTH);
        NAME(rows_step)(which, &want, &(tr_grad_rows){.values = sums, .rows = unique, .count = groups, .width = WIDTH});
        const tr_grad_rows rows = {.values = g, .rows = unique, .first = first, .order = order, .count = groups, .width = WIDTH};
        SAME_FOR_ALL_THREADS(have.p, HEIGHT * WIDTH * (int64_t)sizeof(T),
                             (memcpy(have.p, start.p, HEIGHT * WIDTH * sizeof(T)), memcpy(have.s, start.s, HEIGHT * WIDTH * sizeof(T)),
                              memcpy(have.u, start.u, HEIGHT * WIDTH * sizeof(T))),
                             NAME(rows_step)(which, &have, &rows));
        assert_memory_equal(have.p, want.p, HEIGHT * WIDTH * sizeof(T));
        assert_memory_equal(have.s, want.s, HEIGHT * WIDTH * sizeof(T));
        assert_memory_equal(have.u, want.u, HEIGHT * WIDTH * sizeof(T));
        NAME(state_free)(&want), NAME(state_free)(&have), NAME(state_free)(&start);
        free(g), free(sums);
    }
}

static void NAME(the_rate_of_adam)(void **state)
{
    (void)state;
    NAME(near)((double)NAME(tr_adam_rate)((T)0.5, (T)0.9, (T)0.99), 0.5 * sqrt(1 - (double)(T)0.99) / (1 - (double)(T)0.9), 1, 4,
               "rate", 0);
}

#endif
