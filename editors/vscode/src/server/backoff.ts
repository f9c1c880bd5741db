/** When a server that ended by itself is started again. Pure. */

/** Milliseconds before each further start. */
export const DELAYS = [500, 1000, 2000, 4000, 8000];
/** Milliseconds that a server has to live for its earlier crashes to be forgotten. */
export const QUIET = 180_000;

export class Backoff {
  private crashes = 0;

  /** Milliseconds to wait before the next start; undefined: not again by itself. */
  next(livedFor: number): number | undefined {
    if (livedFor >= QUIET) this.crashes = 0;
    return DELAYS[this.crashes++];
  }

  forget(): void {
    this.crashes = 0;
  }
}
