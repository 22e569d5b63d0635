/* window.h - how often a window fits along an axis, and how far its places reach. Convolutions, pools and patches share these formulas. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Places of a window along an axis of `in` elements with `padding` in all, before and behind. As in Fluid the division rounds towards 0, so a window
 * that is larger than the padded axis by less than a stride has one place. `ceil_mode` counts a last place that reaches beyond the end. 0 or less: the
 * window has no place. */
static inline int64_t tr_window_places(int64_t in, int64_t window, int64_t stride, int64_t padding, bool ceil_mode)
{
    return (in + padding - window + (ceil_mode ? stride - 1 : 0)) / stride + 1;
}

/* Elements of the padded axis, as far as a window at any of its places reaches. */
static inline int64_t tr_window_reach(int64_t in, int64_t window, int64_t stride, int64_t padding, int64_t places)
{
    const int64_t end = (places - 1) * stride + window;
    return end > in + padding ? end : in + padding;
}
