import { act } from "../api";
import { severity } from "../format";
import { useWords } from "../i18n";
import { Age, Button, DeniedNote, Heading, Mark, Meter, Progress, Section, StateBadge, useProblem } from "../parts/common";
import { compare } from "../parts/filters";
import { addonPath, clusterPath } from "../router";
import { useList, useOne } from "../stream";
import type { Addon, Addons } from "../types";
import { Gone, Loading } from "./missing";

export function AddonsPage() {
  const words = useWords();
  const list = useList<Addon>("addons", "addons");
  const hidden = useProblem("CAPTAddon");
  const addons = [...list.items.values()].sort((a, b) => severity(a.state) - severity(b.state) || compare(a.name, b.name));
  return (
    <>
      <Heading>{words.addons}</Heading>
      <DeniedNote kinds={["CAPTAddon"]} />
      {!list.synced && !addons.length ? <Progress /> : !addons.length && !hidden && <p>{words.noAddons}</p>}
      <ul role="list" class="cards">
        {addons.map((addon) => (
          <li key={addon.ns + addon.name}>
            <a class="card" href={addonPath(addon.ns, addon.name)}>
              <span class="card-head">
                <Mark state={addon.state} /> <strong>{addon.name}</strong> <span class="quiet">{addon.ns}</span>
                <span class="end quiet">{[addon.chart, addon.version].filter(Boolean).join(" ")}</span>
              </span>
              <Meter value={addon.ready} max={addon.matched} label={`${addon.name}: ${words.readyIn(addon.ready, addon.matched)}`} state={addon.state} />
              <span class="quiet">{words.readyIn(addon.ready, addon.matched)}</span>
              {addon.message && addon.state !== "Ready" && <span class="message" lang="en">{addon.message}</span>}
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

export function AddonPage({ ns, name }: { ns: string; name: string }) {
  const words = useWords();
  const data = useOne<Addons>(`addon/${ns}/${name}`, "addons");
  const addon = data?.addons?.[0];
  if (data === null) return <Gone title={name} kind="CAPTAddon" />;
  if (!addon) return <Loading title={name} />;
  return (
    <>
      <header class="title">
        <Heading>{addon.name}</Heading>
        <StateBadge state={addon.state} />
        <span class="end">
          <Button onClick={() => act(`addons/${ns}/${name}/trigger`, {}, words.triggered, words.needs)}>{words.trigger}</Button>
        </span>
      </header>
      <dl class="facts">
        <div>
          <dt>{words.namespace}</dt>
          <dd>{ns}</dd>
        </div>
        {addon.version && (
          <div>
            <dt>{words.version}</dt>
            <dd>{[addon.chart, addon.version].filter(Boolean).join(" ")}</dd>
          </div>
        )}
      </dl>
      <Section title={words.readyIn(addon.ready, addon.matched)}>
        <Meter value={addon.ready} max={addon.matched} label={words.readyIn(addon.ready, addon.matched)} state={addon.state} />
        {!addon.clusters?.length && <p class="quiet">{words.noAddonClusters}</p>}
        <ul role="list" class="events">
          {addon.clusters?.map((c) => (
            <li key={c.name}>
              <Mark state={c.state} />
              <span class="event-text">
                <a href={clusterPath(ns, c.name)}>{c.name}</a> {c.state !== "Ready" && <span class="reason">{c.reason}</span>}{" "}
                <span class="quiet">
                  <Age since={c.since} /> {!!c.attempts && c.state !== "Ready" && words.attempts(c.attempts)}
                </span>
                {c.state !== "Ready" && <span class="message" lang="en">{c.message}</span>}
              </span>
            </li>
          ))}
        </ul>
      </Section>
    </>
  );
}
