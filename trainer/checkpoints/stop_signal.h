/* stop_signal.h - the signals by which schedulers ask a training for its end, SIGTERM and SIGUSR1. The checkpoint manager acts on them
 * between two steps. */
#pragma once

#include "framework/trireme.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Note the signals that arrive from now on. A signal that was ignored when the program began stays ignored, as under nohup. */
TR_API void        tr_stop_signal_listen(void);
/* The signal of this number has arrived. A script has handlers of its own, which call this. */
TR_API void        tr_stop_signal_ask(int number);
/* Has one arrived? The launcher learns of it, and tells a standby that takes this trainer's place. */
TR_API bool        tr_stop_signal_came(void);
/* The name of the signal that arrived first. The launcher passes every signal on as SIGUSR1, and notes the name of the original. */
TR_API const char *tr_stop_signal_name(char *name, size_t size);

#ifdef __cplusplus
}
#endif
