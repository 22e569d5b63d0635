/* launcher.h - news of a rank for the launcher that started its job: tr_notice in trireme_notice.h, and docs/launcher.md. */
#ifndef TR_PSERVER_LAUNCHER_H
#define TR_PSERVER_LAUNCHER_H

#include "pserver/trireme_notice.h"

/* tr_notice_tell about any rank. */
bool tr__launcher_tell(tr_notice what, int rank, const char *text);

#endif
