/* fusions.h - tell the framework what can be fused; once, at start. */
#ifndef TR_KERNELS_FUSIONS_H
#define TR_KERNELS_FUSIONS_H

void tr__fusions_register(void);

#endif
