// Builds what crates/lab embeds: dist/report.js (one immediately invoked function), dist/report.css, and
// dist/report.sha256, by which the page's content security policy allows that script and no other.
import { createHash } from "node:crypto";
import { defineConfig } from "vite";

const hash = {
  name: "script-hash",
  generateBundle(_, bundle) {
    const code = bundle["report.js"].code;
    if (/<\/script|<!--/i.test(code)) throw new Error("the script would end its own element");
    const source = createHash("sha256").update(code).digest("base64") + "\n";
    this.emitFile({ type: "asset", fileName: "report.sha256", source });
  },
};

export default defineConfig({
  plugins: [hash],
  build: {
    target: "es2022",
    outDir: process.env.OUT_DIR ?? "dist",
    emptyOutDir: true,
    reportCompressedSize: false,
    lib: { entry: "src/main.ts", formats: ["iife"], name: "plimsoll", fileName: () => "report.js", cssFileName: "report" },
  },
  // A test reads the governor's live page, which lies in its crate.
  server: { fs: { allow: [".."] } },
  test: { environment: "happy-dom", css: true },
});
