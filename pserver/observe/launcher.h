/* launcher.h - news of a rank for the launcher that started its job: tr_notice in trireme_notice.h, and docs/launcher.md. */
#pragma once

#include "pserver/trireme_notice.h"

/* tr_notice_tell about any rank. */
bool tr__launcher_tell(tr_notice what, int rank, const char *text);
