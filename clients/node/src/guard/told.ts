/** Errors of an outage that somebody was told of already, so that it is not logged with each request. */
export const told = new WeakSet<Error>()
