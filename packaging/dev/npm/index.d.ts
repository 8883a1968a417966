/** The path of the program throttle-dev for this system. */
declare const program: string
export = program
