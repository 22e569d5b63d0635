/* server_rules.h - the rules between the protocols of a server: what happens when something has changed. */
#pragma once

#include "pserver/core/updates/server_state.h"

/* Run the first rule that is due. False: none is. The caller carries effects out before it calls again, so a rule sees what earlier ones
 * have committed. */
bool tr__rules_run(tr_server *server);
