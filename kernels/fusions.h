/* fusions.h - tell the framework what can be fused; once, at start. */
#pragma once

void tr__fusions_register(void);
