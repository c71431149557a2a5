/** Cases that a real API server cannot hold, or that say less than a cluster does, each with the reason. */
export const NOT_HELD: Readonly<Record<string, string>> = {};
