import { useWords } from "../i18n";
import { Age, Command, Conditions, DeniedNote, Facts, Heading, Section, StateBadge, useProblem, type Fact } from "../parts/common";
import { EventList } from "./events";
import { Gantt } from "../parts/gantt";
import { Tree } from "../parts/tree";
import { workspacePath } from "../router";
import { useOne } from "../stream";
import type { Cluster } from "../types";
import { Gone, Loading } from "./missing";

export function ClusterPage({ ns, name }: { ns: string; name: string }) {
  const words = useWords();
  const cluster = useOne<Cluster>(`cluster/${ns}/${name}`, "cluster");
  const hiddenEvents = useProblem("Event");
  if (cluster === undefined) return <Loading title={name} />;
  if (cluster === null) return <Gone title={name} kind="Cluster" />;
  const { row } = cluster;
  const facts: Fact[] = [
    [words.namespace, row.ns],
    [words.version, row.version],
    [words.region, row.region],
    [words.nodes, row.nodes ? `${row.ready}/${row.nodes}` : ""],
    [words.endpoint, cluster.endpoint],
    [words.age, <Age since={row.created} />],
  ];
  return (
    <>
      <header class="title">
        <Heading>{row.name}</Heading>
        <StateBadge state={row.state} />
        {row.paused && <span class="badge">{words.paused}</span>}
        {row.deleting && <span class="badge">{words.deleting}</span>}
      </header>
      {row.state !== "Ready" && row.message && <p class="lead" lang="en">{row.message}</p>}
      <Facts facts={facts} />
      {!!row.attention?.length && (
        <Section title={words.waitsForYou} class="attention">
          <ul role="list" class="attention-list">
            {row.attention.map((a) => (
              <li key={a.workspace}>
                <a class="button" href={workspacePath(ns, a.workspace)}>
                  {words.attention[a.what] ?? a.what}: {a.workspace}
                </a>
              </li>
            ))}
          </ul>
        </Section>
      )}
      <div class="columns">
        <Section title={words.tree}>
          <Tree root={cluster.tree} ns={ns} />
          <DeniedNote except={["Event"]} />
        </Section>
        <Section title={words.problems}>
          <Conditions conditions={cluster.conditions} />
        </Section>
      </div>
      <Section title={words.timeline}>
        <Gantt spans={cluster.timeline} ns={ns} />
      </Section>
      <div class="columns">
        <Section title={words.events}>
          <DeniedNote kinds={["Event"]} />
          {!hiddenEvents && <EventList events={cluster.events} ns={ns} />}
        </Section>
        <Section title={words.kubeconfig}>
          <Command text={`captctl -n ${ns} get kubeconfig ${name} > ${name}.kubeconfig\nkubectl --kubeconfig ${name}.kubeconfig get nodes`} />
        </Section>
      </div>
    </>
  );
}
