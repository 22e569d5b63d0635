/* test_conv_direct.h - the part of test_conv_direct.c that is read for each T. */

typedef struct {
    int64_t x, filter, out;                   /* elements */
    T      *of_x, *of_filter, *of_out;
} NAME(arrays);

static T *NAME(numbers)(int64_t n, uint64_t seed)
{
    T *a = malloc((size_t)(n + 1) * sizeof(T));

    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        a[i] = (T)((double)(seed >> 33) / (1u << 30) - 1);
    }
    return a;
}

static NAME(arrays) NAME(make)(const tr_conv_shape *s)
{
    NAME(arrays) a = {.x = s->batch * s->in_channels * volume(s->in),
                      .filter = s->out_channels * s->in_channels / s->groups * volume(s->kernel),
                      .out = s->batch * s->out_channels * volume(s->out)};
    a.of_x = NAME(numbers)(a.x, 1);
    a.of_filter = NAME(numbers)(a.filter, 2);
    a.of_out = NAME(numbers)(a.out, 3);
    return a;
}

/* The three results one after the other: malloc'ed. */
static T *NAME(results)(const tr_conv_shape *s, const NAME(arrays) *a, bool direct, int threads)
{
    T *r = malloc((size_t)(a->out + a->x + a->filter) * sizeof(T));
    T *bias = NAME(numbers)(s->out_channels, 4);

    tr_set_num_threads(threads);
    tr__conv_direct_allow(direct);
    NAME(tr_conv)(r, a->of_x, a->of_filter, bias, s);
    NAME(tr_conv_grad_input)(r + a->out, a->of_out, a->of_filter, s);
    NAME(tr_conv_grad_filter)(r + a->out + a->x, a->of_out, a->of_x, s);
    tr__conv_direct_allow(true);
    tr_set_num_threads(0);
    free(bias);
    return r;
}

static void NAME(compare)(const char *name, const tr_conv_shape *s)
{
    const NAME(arrays) a = NAME(make)(s);
    const int64_t      n = a.out + a.x + a.filter;
    T *direct = NAME(results)(s, &a, true, 1), *threads = NAME(results)(s, &a, true, 4);
    T *columns = NAME(results)(s, &a, false, 1);

    if (memcmp(direct, threads, (size_t)n * sizeof(T)) != 0)
        fail_msg("%s: one thread and four give different bits", name);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)(direct[i] - columns[i])) <= (T_IS_F32 ? 1e-4 : 1e-12) * (1 + fabs((double)columns[i]))))
            fail_msg("%s: element %lld of %s is %.9g, through columns %.9g", name, (long long)i,
                     i < a.out ? "the result" : i < a.out + a.x ? "the input's gradient" : "the filter's gradient",
                     (double)direct[i], (double)columns[i]);
    free(direct);
    free(threads);
    free(columns);
    free(a.of_x);
    free(a.of_filter);
    free(a.of_out);
}

static void NAME(ways_agree)(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tr_conv_shape s = cases[i].s;
        for (int d = 0; d < 3; d++)
            s.out[d] = tr_window_places(s.in[d], s.dilation[d] * (s.kernel[d] - 1) + 1, s.stride[d], 2 * s.pad[d], false);
        NAME(compare)(cases[i].name, &s);
    }
}
