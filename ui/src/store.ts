import { useEffect, useState } from "preact/hooks";

/** Store is a value that components follow. */
export class Store<T> {
  private followers = new Set<() => void>();
  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set value(next: T) {
    if (Object.is(next, this.current)) return;
    this.current = next;
    for (const follower of [...this.followers]) follower();
  }

  follow(follower: () => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
}

/** useStore returns the value of a store and renders again when it changes. */
export function useStore<T>(store: Store<T>): T {
  const [value, set] = useState<{ value: T }>({ value: store.value });
  useEffect(() => {
    const update = () => set({ value: store.value });
    update();
    return store.follow(update);
  }, [store]);
  return value.value;
}

/** stored returns a store that the browser remembers. */
export function stored(name: string, initial: string): Store<string> {
  let value = initial;
  try {
    value = localStorage.getItem(name) ?? initial;
  } catch {
    // Storage is disabled.
  }
  const store = new Store(value);
  store.follow(() => {
    try {
      localStorage.setItem(name, store.value);
    } catch {
      // Storage is disabled.
    }
  });
  return store;
}

/** now is the current time, updated every ten seconds while the page is visible. */
export const now = new Store(Date.now());
if (typeof document !== "undefined") {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 10_000);
}

/** toast is a message about the last action. */
export const toast = new Store<{ text: string; bad?: boolean } | null>(null);

/** narrow is true on a phone. */
export const narrow = new Store(typeof matchMedia !== "undefined" && matchMedia("(max-width: 640px)").matches);
if (typeof matchMedia !== "undefined") matchMedia("(max-width: 640px)").addEventListener("change", (e) => (narrow.value = e.matches));
