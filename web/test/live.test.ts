// The governor's live page, which crates/governor embeds as it is: run in a made-up browser with a made-up governor.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import html from "../../crates/governor/src/page/live.html?raw";
import state from "./governor-state.json";

type State = typeof state;

let answer: () => Promise<unknown>;

function open(): void {
  document.body.innerHTML = html.slice(html.indexOf("<main>"), html.indexOf("</main>") + 7);
  const script = html.slice(html.indexOf("<script>") + 8, html.indexOf("</script>"));
  new Function(script)();
}

const answers = (with_: (state: State) => void = () => {}): void => {
  const changed = structuredClone(state);
  with_(changed);
  answer = async () => ({ ok: true, status: 200, text: async () => JSON.stringify(changed) });
};

const text = (selector: string): string => document.querySelector(selector)?.textContent ?? "";
const pass = (): Promise<unknown> => vi.advanceTimersByTimeAsync(1100);

beforeEach(() => {
  vi.useFakeTimers();
  answers();
  vi.stubGlobal("fetch", () => answer());
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("each class has its numbers and two charts", async () => {
  open();
  await pass();
  const cards = [...document.querySelectorAll("article")];
  expect(cards.map((card) => card.dataset.class)).toEqual(state.classes.map((of) => of.name));
  const low = cards[1];
  for (const word of ["priority low, mpl 4", "paused", "12.5", "3.0 ms", "8.1 ms"]) expect(low?.textContent).toContain(word);
  expect(low?.querySelectorAll("svg path.time, svg path.rate").length).toBe(2);
  for (const path of document.querySelectorAll("path")) expect(path.getAttribute("d")).not.toMatch(/NaN|Infinity|undefined/);
  expect(document.body.textContent).not.toMatch(/NaN|undefined|null/);
  expect(text("#queue")).toContain("class mpl 4 is full");
  expect(text("#preemptions")).toContain("rolled back");
  expect(document.querySelector("#preemptions td.bad")?.textContent).toBe("40001: answer 12 differed");
  expect(text("#levers")).toContain("run as root or with CAP_SYS_NICE");
  expect(document.querySelector("#targets td.bad")?.textContent).toBe("cannot hold for 42 s");
  for (const word of ["p95 < 20ms", "25 ms", "low mpl 1 (set: 4)"]) expect(text("#targets")).toContain(word);
  expect(text("#moves")).toContain("29 of 198 transactions were beyond the target");
  expect(document.querySelector<HTMLElement>("#lost")?.hidden).toBe(true);
});

test("nothing has happened yet: dashes, not zeros that were never measured", async () => {
  answers((state) => {
    for (const of of state.classes) {
      Object.assign(of, { last_10_s: null, last_60_s: null, chart_transactions_per_s: [], chart_p95_s: [] });
    }
    Object.assign(state, { queue: [], preemptions: [], levers: [], targets: { promises: [], levers: [], moves: [] } });
  });
  open();
  await pass();
  expect([...document.querySelectorAll("article dd")].slice(0, 6).map((cell) => cell.textContent)).toEqual(Array(6).fill("–"));
  expect(text("#queue")).toBe("no transactions are queued");
  expect(text("#preemptions")).toBe("no transaction was rolled back");
  expect(text("#targets")).toBe("no class has a target");
  expect(document.body.innerHTML).not.toMatch(/NaN|Infinity|undefined/);
});

test("under track a class shows what preemption would do to it", async () => {
  answers((state) => {
    Object.assign(state.classes[1]!, { tracked: { victims: 7, errors_40001: 3, saved_s: null } });
  });
  open();
  await pass();
  const numbers = [...document.querySelectorAll("article:nth-child(2) dl div")].map((pair) => pair.textContent);
  expect(numbers).toContain("would roll back7");
  expect(numbers).toContain("of these 400013");
  expect(numbers.join()).not.toContain("would save");
});

test("names that clients choose are text", async () => {
  const name = "<img src=x onerror=alert(1)>";
  answers((state) => {
    state.classes[0]!.name = name;
    state.queue[0]!.user = name;
    state.preemptions[0]!.victim_class = name;
  });
  open();
  await pass();
  expect(document.querySelector("img")).toBeNull();
  expect(text("article h3")).toContain(name);
  expect(text("#queue")).toContain(name);
});

test("names cannot turn the text around them", async () => {
  answers((state) => { state.queue[0]!.user = "app\u202etxt.exe"; });
  open();
  await pass();
  expect(text("#queue")).toContain("app\ufffdtxt.exe");
  expect(text("#blocked")).toContain("no-retry");
});

test("the form shows the lines for a statement, and what the console does with it", async () => {
  open();
  await pass();
  for (const word of ["00000000000000ff", "rate = 5/s, guards = warn", "295", "UNGOVERN '00000000000000ff';"]) {
    expect(text("#governed")).toContain(word);
  }
  expect([...document.querySelectorAll("#govern-class option")].map((option) => option.textContent)).toEqual(["its own", "high", "low"]);
  const asked: string[] = [];
  let preview: unknown = { lines: "[[rule]]\nclass = \"<b>\"\n", error: null };
  vi.stubGlobal("fetch", (url: string) => {
    if (!url.startsWith("/govern.json?words=")) return answer();
    asked.push(decodeURIComponent(url.slice(url.indexOf("=") + 1)));
    return Promise.resolve({ ok: true, status: 200, text: async () => JSON.stringify(preview) });
  });
  const set = (name: string, value: string): void => { document.querySelector<HTMLInputElement>(`#govern-${name}`)!.value = value; };
  const show = async (): Promise<void> => {
    document.querySelector<HTMLButtonElement>("#govern-show")!.click();
    await pass();
  };
  set("statement", "select 'a'");
  set("rate", " 5/s ");
  await show();
  expect(text("#govern-said")).toContain("GOVERN 'select ''a''' rate = '5/s' guards = 'warn';");
  expect(text("#govern-said")).toContain('class = "<b>"');
  expect(document.querySelector("#govern-said b")).toBeNull();
  // A class that exists has its own limits.
  set("class", "low");
  preview = { lines: null, error: "`x` is not a rate" };
  await show();
  expect(text("#govern-said")).toBe("`x` is not a rate");
  expect(asked).toEqual(["'select ''a''' rate = '5/s' guards = 'warn'", "'select ''a''' class = 'low'"]);
  // What the governor says each second leaves the form as it is.
  expect(document.querySelector<HTMLSelectElement>("#govern-class")!.value).toBe("low");
});

test("a statement that takes the time is governed from the list", async () => {
  open();
  await pass();
  for (const word of ["select * from items where title like $1", "61 %", "52 % to 70 %", "<i>a</i>", "all others", "raise track_activity_query_size"]) {
    expect(text("#statements")).toContain(word);
  }
  expect(document.querySelector("#statements i")).toBeNull();
  expect(text("#activity")).toContain("2 sessions are hidden");
  const buttons = document.querySelectorAll<HTMLButtonElement>("#statements button");
  expect(buttons.length).toBe(1);
  Element.prototype.scrollIntoView ??= () => {};
  buttons[0]!.click();
  expect(document.querySelector<HTMLTextAreaElement>("#govern-statement")!.value).toBe("7cbb0a35b9c3e2d1");
  expect(text("#govern-said")).toContain("title like $1");
  // One that has the focus is not taken away each second.
  buttons[0]!.focus();
  await pass();
  expect(document.querySelector("#statements button")).toBe(buttons[0]);
});

test("a connection that is lost is told, and forgotten when it is back", async () => {
  open();
  await pass();
  answer = async () => { throw new TypeError("failed to fetch"); };
  await pass();
  const lost = document.querySelector<HTMLElement>("#lost")!;
  expect(lost.hidden).toBe(false);
  expect(lost.textContent).toMatch(/Connection lost: nobody answers\. What is shown is \d+ s old\./);
  expect(document.querySelectorAll("article").length).toBe(2);
  answer = async () => ({ ok: false, status: 503 });
  await pass();
  expect(lost.textContent).toContain("the governor answers 503");
  answers();
  await pass();
  expect(lost.hidden).toBe(true);
});

test("nothing is loaded from elsewhere", () => {
  const addresses = [...html.matchAll(/(?:https?:)?\/\/[\w.-]+\.\w+[^\s"']*/g)].map(([address]) => address);
  expect(addresses).toEqual(["http://www.w3.org/2000/svg"]);
  expect(html).not.toMatch(/<link[^>]+stylesheet|<script[^>]+src|@import|url\(/);
});
