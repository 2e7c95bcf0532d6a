import { readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";
import { parseReasons } from "./src/reasons.ts";

// The page explains the reasons of conditions with the tables of the documentation.
const reasons = {
  name: "reasons",
  resolveId: (id: string) => (id === "virtual:reasons" ? "\0reasons" : undefined),
  load: (id: string) =>
    id === "\0reasons"
      ? `export default ${JSON.stringify(parseReasons(readFileSync(new URL("../docs/troubleshooting.md", import.meta.url), "utf8")))}`
      : undefined,
};

// The licence of what is part of the page goes with it.
const licence = {
  name: "licence",
  generateBundle(this: { emitFile: (file: { type: "asset"; fileName: string; source: string }) => void }) {
    this.emitFile({ type: "asset", fileName: "assets/preact-LICENSE.txt", source: readFileSync(new URL("node_modules/preact/LICENSE", import.meta.url), "utf8") });
  },
};

export default defineConfig({
  plugins: [reasons, licence],
  build: {
    outDir: "../internal/web/assets/dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
});
