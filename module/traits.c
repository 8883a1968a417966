// What C has to know of the commands. commands.c fills it in.
#include "call.h"

throttleTraits throttleCommands[MAX_COMMANDS];
int throttleCommandCount;
