/* loop_options.h - what tr_loop_new is asked for: checked, and with its defaults filled in. */
#pragma once

#include "trainer/trireme_trainer.h"

tr_status       tr_loop_options_check(const tr_loop_options *options);
tr_loop_options tr_loop_options_settled(const tr_loop_options *options);
