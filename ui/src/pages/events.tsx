import { useEffect, useState } from "preact/hooks";
import { useWords } from "../i18n";
import { Age, DeniedNote, Heading, Mark, Progress, useProblem } from "../parts/common";
import { address, addonPath, clusterPath, setQuery, workspacePath } from "../router";
import { useStore } from "../store";
import { follow } from "../stream";
import type { Event } from "../types";

const limit = 500;

/** merge adds new events to a feed, the latest first; an event that happened again moves. */
export function merge(feed: Event[], added: Event[]): Event[] {
  const ids = new Set(added.map((e) => e.id));
  return [...added, ...feed.filter((e) => !ids.has(e.id))].sort((a, b) => (a.last < b.last ? 1 : a.last > b.last ? -1 : 0)).slice(0, limit);
}

function linkOf(event: Event): string | undefined {
  switch (event.kind) {
    case "Cluster":
      return clusterPath(event.ns, event.name);
    case "WorkspaceTemplateApply":
      return workspacePath(event.ns, event.name);
    case "CAPTAddon":
      return addonPath(event.ns, event.name);
    default:
      return undefined;
  }
}

export function EventList({ events, ns }: { events: Event[]; ns?: string }) {
  const words = useWords();
  if (!events.length) return <p class="quiet">{words.noEvents}</p>;
  return (
    <ul role="list" class="events">
      {events.map((event) => {
        const title = `${event.kind === "WorkspaceTemplateApply" ? "Workspace" : event.kind}/${event.name}`;
        const to = linkOf(event);
        return (
          <li key={event.id}>
            <Mark state={event.warning ? "Failed" : "Ready"} />
            <span class="event-text">
              <strong>{event.reason}</strong> {to ? <a href={to}>{title}</a> : title}
              {ns === undefined && <span class="quiet"> {event.ns}</span>}{" "}
              <span class="quiet">
                <Age since={event.last} suffix />
                {(event.count ?? 0) > 1 && ` ${words.times(event.count!)}`}
              </span>
              <span class="message" lang="en">{event.message}</span>
            </span>
          </li>
        );
      })}
    </ul>
  );
}

export function Events() {
  const words = useWords();
  const query = new URLSearchParams(useStore(address).split("?")[1] ?? "");
  const [feed, setFeed] = useState<Event[]>([]);
  const [synced, setSynced] = useState(false);
  const hidden = useProblem("Event");
  useEffect(
    () =>
      follow("events", (message) => {
        if (message.name === "reset") setFeed([]);
        else if (message.name === "events") setFeed((feed) => merge(feed, message.data));
        else if (message.name === "synced") setSynced(true);
      }),
    [],
  );
  const q = (query.get("q") ?? "").toLowerCase();
  const warnings = query.get("warnings") === "1";
  const shown = feed.filter((e) => (!warnings || e.warning) && (!q || `${e.ns} ${e.kind}/${e.name} ${e.reason} ${e.message}`.toLowerCase().includes(q)));
  return (
    <>
      <Heading>{words.events}</Heading>
      <div class="filters">
        <input type="search" value={query.get("q") ?? ""} placeholder={words.filterEvents} aria-label={words.filterEvents} onInput={(e) => setQuery("q", e.currentTarget.value)} />
        <label>
          <input type="checkbox" checked={warnings} onChange={(e) => setQuery("warnings", e.currentTarget.checked ? "1" : "")} /> {words.warningsOnly}
        </label>
      </div>
      <DeniedNote kinds={["Event"]} />
      {!synced ? (
        <Progress />
      ) : (
        !hidden && (
          <div class="panel">
            <EventList events={shown} />
          </div>
        )
      )}
    </>
  );
}
