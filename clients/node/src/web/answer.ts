/**
 * What becomes of a request that nobody could decide about: it is served, it gets status 503, or the error is thrown.
 */
export type Answer = 'allow' | 'deny' | 'raise'

export const answers = ['allow', 'deny', 'raise'] as const satisfies Answer[]
