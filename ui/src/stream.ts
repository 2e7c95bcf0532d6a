import { useEffect, useState } from "preact/hooks";
import { request } from "./api";
import { busy, inSlot, keepOpen } from "./connection";
import { currentWords } from "./i18n";
import { Store } from "./store";
import type { Session } from "./types";

/** Message is an event of a stream. */
export interface Message {
  name: string;
  data: any;
}

/** Parser splits the text of a stream into messages. */
export class Parser {
  private rest = "";

  push(text: string): Message[] {
    this.rest += text;
    const parts = this.rest.split("\n\n");
    this.rest = parts.pop() ?? "";
    const messages: Message[] = [];
    for (const part of parts) {
      let name = "";
      let data = "";
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (name) messages.push({ name, data: data ? JSON.parse(data) : null });
    }
    return messages;
  }
}

/** session is what the server knows about the user, and link the state of the stream. */
export const session = new Store<Session | null>(null);
export const link = new Store<"connecting" | "live" | "lost">("connecting");
/** crowded is why the server refuses the stream for now. */
export const crowded = new Store("");

/** read passes the messages of a stream to emit until it ends. */
export function read(path: string, signal: AbortSignal, emit: (message: Message) => void): Promise<void> {
  return inSlot(() => readNow(path, signal, emit), () => currentWords().tooManyTabs);
}

async function readNow(path: string, signal: AbortSignal, emit: (message: Message) => void): Promise<void> {
  const reader = (await request(path, { signal })).body!.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new Parser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const message of parser.push(value)) emit(message);
  }
}

/** follow passes the messages of a view to emit until the returned function is called. */
export function follow(view: string, emit: (message: Message) => void): () => void {
  return keepOpen({
    connect: async (signal, heard) => {
      await read("stream?view=" + encodeURIComponent(view), signal, (message) => {
        heard();
        if (message.name === "session") session.value = message.data;
        else emit(message);
        link.value = "live";
      });
      return false;
    },
    report: (state, why) => {
      link.value = state;
      crowded.value = busy(why);
    },
  });
}

/** Keyed holds the objects of a list by namespace and name. */
export interface Keyed<T> {
  items: Map<string, T>;
  synced: boolean;
}

export const id = (item: { ns: string; name: string }): string => item.ns + "/" + item.name;

/** reduce returns the list after a message. Unknown messages change nothing. */
export function reduce<T extends { ns: string; name: string }>(list: Keyed<T>, message: Message, field: string): Keyed<T> {
  switch (message.name) {
    case "reset":
      return { items: new Map(), synced: false };
    case "synced":
      return { ...list, synced: true };
    case field: {
      const items = new Map(list.items);
      for (const item of (message.data[field] ?? []) as T[]) items.set(id(item), item);
      for (const removed of (message.data.removed ?? []) as string[]) items.delete(removed);
      return { items, synced: list.synced };
    }
    default:
      return list;
  }
}

// The last lists of views. A list that is opened again shows them until its own is complete,
// so the browser finds the place to which it scrolls back.
const lists = new Map<string, Keyed<any>>();

/** useList follows a view of many objects. */
export function useList<T extends { ns: string; name: string }>(view: string, field: string): Keyed<T> {
  const [list, set] = useState<Keyed<T>>(lists.get(view) ?? { items: new Map(), synced: false });
  useEffect(() => {
    let building: Keyed<T> = { items: new Map(), synced: false };
    return follow(view, (message) => {
      building = reduce(building, message, field);
      // After a lost connection the old list stays until the new one is complete.
      if (!building.synced) return;
      lists.set(view, building);
      set(building);
    });
  }, [view, field]);
  return list;
}

/** useOne follows a view of one object. It returns null if the object does not exist. */
export function useOne<T>(view: string, name: string): T | null | undefined {
  const [value, set] = useState<{ view: string; value: T | null | undefined }>({ view, value: undefined });
  useEffect(
    () =>
      follow(view, (message) => {
        if (message.name === name) set({ view, value: message.data });
        else if (message.name === "gone") set({ view, value: null });
      }),
    [view, name],
  );
  return value.view === view ? value.value : undefined;
}
