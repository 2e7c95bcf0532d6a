import { useWords } from "../i18n";
import { DeniedNote, Heading, Progress, useProblem } from "../parts/common";

export function Loading({ title }: { title: string }) {
  return (
    <>
      <Heading>{title}</Heading>
      <Progress />
    </>
  );
}

/** Gone stands for a page that does not exist, or for an object of a kind that does not exist or is not shown. */
export function Gone({ title, kind }: { title: string; kind?: string }) {
  const words = useWords();
  const hidden = useProblem(kind ?? "");
  return (
    <>
      <Heading>{title}</Heading>
      {!hidden && <p>{kind ? words.gone : words.missingPage}</p>}
      {hidden && <DeniedNote kinds={[hidden.kind]} />}
      <p>
        <a href="/">{words.back}</a>
      </p>
    </>
  );
}
