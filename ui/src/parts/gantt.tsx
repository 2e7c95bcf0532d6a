import { useState } from "preact/hooks";
import { current, duration, episodes, type Episode } from "../format";
import { language, useWords } from "../i18n";
import { workspacePath } from "../router";
import { now, useStore } from "../store";
import type { Span } from "../types";
import { Mark } from "./common";

/** Gantt shows what took how long. */
export function Gantt({ spans, ns }: { spans: Span[]; ns: string }) {
  const words = useWords();
  const time = useStore(now);
  const all = episodes(spans, time);
  // An episode is known by its beginning, because later ones are added.
  const [chosen, choose] = useState<number | undefined>();
  const index = all.findIndex((e) => e.from === chosen);
  const shown = index < 0 ? current(all) : index;
  const episode = all[shown];
  if (!episode) return <p class="quiet">{words.noHistory}</p>;
  const whole = Math.max(1, episode.to - episode.from);
  const lanes = new Map<string, Span[]>();
  for (const span of episode.spans) lanes.set(span.lane, [...(lanes.get(span.lane) ?? []), span]);
  const place = (span: Span) => {
    const from = Date.parse(span.start);
    const to = span.end ? Date.parse(span.end) : time;
    return { left: `${(100 * (from - episode.from)) / whole}%`, width: `max(3px, ${(100 * (to - from)) / whole}%)` };
  };
  const title = (e: Episode) => {
    const date = new Date(e.from).toLocaleString(language.value, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
    return e.change ? `${words.changes[e.change]}, ${date}` : date;
  };
  return (
    <div class="gantt">
      {all.length > 1 && (
        <div class="choices" role="group" aria-label={words.timeline}>
          {all.map((e, i) => (
            <button type="button" key={e.from} aria-pressed={i === shown} onClick={() => choose(e.from)}>
              {title(e)}
            </button>
          ))}
        </div>
      )}
      <ul role="list">
        {[...lanes].map(([lane, list]) => {
          const last = list.at(-1)!;
          const took = (span: Span) => duration((span.end ? Date.parse(span.end) : time) - Date.parse(span.start));
          return (
            <li key={lane}>
              <span class="lane">
                {last.workspace ? <a href={workspacePath(ns, last.workspace)}>{lane}</a> : lane}
              </span>
              <span class="track" aria-hidden="true">
                {list.map((span, i) => (
                  <span key={i} class={"bar " + span.state + (span.end ? "" : " open")} style={place(span)} title={`${span.label}: ${took(span)}`} />
                ))}
              </span>
              <span class="took">
                <Mark state={last.state} /> {took(last)} <span class="quiet" title={last.label}>{last.label}</span>
              </span>
            </li>
          );
        })}
      </ul>
      <p class="quiet axis">
        {new Date(episode.from).toLocaleString(language.value)} – {new Date(episode.to).toLocaleTimeString(language.value)} ({duration(whole)}). {words.timelineNote}
      </p>
    </div>
  );
}
