package io.github.redisthrottle;

/** What a server may be sent. */
public enum Commands {
  /** What it has: the module; else the library of functions, which is loaded if it may be; else scripts. */
  AUTO,
  /** Commands of the module alone. */
  MODULE,
  /** Functions and scripts alone. */
  FUNCTIONS
}
