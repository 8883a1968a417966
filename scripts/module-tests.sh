# Which packages of tests/ try the module on a server of their own, in every way that is not clients', crashes' or
# clusters'. Sourced.
# shellcheck shell=bash disable=SC2034
module_tests=(./tests/commands ./tests/line ./tests/neighbours ./tests/operating ./tests/process ./tests/transcripts ./tests/twins ./tests/wait)
