"use strict";
// The question of the form is the query of the address; its answer comes as lines of JSON.
(() => {
  const byId = (id) => document.getElementById(id);
  const form = byId("question");
  const answer = byId("answer");
  const views = [...document.querySelectorAll("[data-view]")];
  const TYPING = 400; // ms after the last letter
  let view = new URLSearchParams(location.search).get("view") || "answer";
  let copies = {};
  let running = null;
  let asked = "";

  // --- the address -----------------------------------------------------------------------------

  const pinned = () => new URLSearchParams(location.search).get("pin");

  // What differs from the scenario that the question starts from.
  const question = () => {
    const pairs = [...form.elements]
      .filter((field) => field.name && field.value.trim() !== field.dataset.base)
      .map((field) => [field.name, field.value.trim()]);
    return new URLSearchParams(pairs).toString();
  };

  const query = (name, pin) => {
    const parts = new URLSearchParams(question());
    if (name !== "answer") parts.set("view", name);
    if (pin) parts.set("pin", pin);
    return parts.toString();
  };

  const go = (pin = pinned()) => {
    const next = `?${query(view, pin)}`;
    if (next !== location.search) history.pushState(null, "", next);
    show();
  };

  // --- the answer ------------------------------------------------------------------------------

  const say = (words) => { byId("status").textContent = words; };

  const fail = (text) => {
    byId("problem").textContent = text;
    byId("problem").hidden = !text;
  };

  const put = (value) => {
    answer.querySelectorAll(".js-plotly-plot").forEach((chart) => Plotly.purge(chart));
    answer.innerHTML = value.html; // made by the server, which escapes all texts
    byId("title").textContent = value.title;
    byId("subtitle").textContent = value.subtitle;
    document.title = `${value.title} - clustersim`;
    copies = value.copies;
    byId("use").hidden = !value.best;
    if (value.best) byId("use").href = `?${value.best}`;
    adopt(answer);
  };

  const takes = { answer: put, problem: fail, fault: (text) => fail(`internal error: ${text}`) };

  const lines = async function* (response) {
    const decoder = new TextDecoder();
    let rest = "";
    for (let reader = response.body.getReader(); ;) {
      const { done, value } = await reader.read();
      rest += done ? "" : decoder.decode(value, { stream: true });
      const parts = rest.split("\n");
      rest = parts.pop();
      yield* parts.map((line) => JSON.parse(line));
      if (done) return;
    }
  };

  const ask = async () => {
    running?.abort();
    const controller = (running = new AbortController());
    const job = crypto.randomUUID();
    const began = performance.now();
    const long = Boolean(action());
    answer.classList.add("stale");
    byId("stop").hidden = !long;
    byId("stop").dataset.job = job;
    byId("compute").hidden = true;
    say("computing");
    try {
      const address = `answer?${query(view, pinned())}&view=${view}&job=${job}`;
      const response = await fetch(address, { signal: controller.signal });
      if (!response.ok) throw new Error(`the server answers ${response.status}`);
      for await (const { kind, value } of lines(response)) {
        if (kind === "progress") {
          if (value) say(value);
          continue;
        }
        fail("");
        takes[kind](value);
        say(kind === "answer" ? `answered in ${((performance.now() - began) / 1000).toFixed(2)} s` : "");
      }
      answer.classList.remove("stale");
    } catch (error) {
      if (error.name === "AbortError") return;
      fail(`no answer: ${error.message}`);
      say("");
    }
    byId("stop").hidden = true;
    if (running === controller) running = null;
    if (view === "answer") choose();
  };

  const action = () => views.find((each) => each.dataset.view === view)?.dataset.action;

  const show = () => {
    const address = query(view, pinned());
    views.forEach((each) => {
      each.href = `?${query(each.dataset.view, pinned())}`;
      if (each.dataset.view === view) each.setAttribute("aria-current", "page");
      else each.removeAttribute("aria-current");
    });
    byId("download").href = `download?${question()}&view=${view}`;
    byId("unpin").hidden = !pinned();
    if (address === asked) return;
    asked = address;
    byId("use").hidden = true;
    if (!action()) return ask();
    running?.abort();
    byId("compute").textContent = action();
    byId("compute").hidden = false;
    answer.replaceChildren();
    fail("");
    say("");
  };

  // --- choices ---------------------------------------------------------------------------------

  // Greys what is not valid with the rest, and says why.
  const choose = async () => {
    const before = question();
    const response = await fetch(`choices?${before}`);
    for await (const { kind, value } of lines(response)) {
      if (kind !== "answer" || before !== question()) continue;
      for (const [key, reasons] of Object.entries(value)) grey(form.elements[key], reasons);
    }
  };

  const grey = (select, reasons) => {
    for (const option of select?.options || []) {
      const why = reasons[option.value];
      if (why === undefined) continue;
      option.disabled = Boolean(why) && !option.selected;
      option.textContent = why ? `${option.value}: ${why}` : option.value;
      option.title = why;
    }
  };

  // --- controls --------------------------------------------------------------------------------

  let waiting;
  const changed = (event) => {
    clearTimeout(waiting);
    if (["kind", "of"].includes(event.target.name)) {
      const parts = new URLSearchParams({ kind: form.elements.kind.value });
      if (form.elements.of.value && event.target.name === "of") {
        parts.set("of", form.elements.of.value);
        parts.delete("kind");
      }
      location.search = parts.toString();
      return;
    }
    waiting = setTimeout(go, event.type === "change" ? 0 : TYPING);
  };
  form.addEventListener("input", changed);
  form.addEventListener("change", changed);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go();
  });
  views.forEach((each) => {
    each.addEventListener("click", (event) => {
      event.preventDefault();
      view = each.dataset.view;
      go();
    });
  });
  byId("compute").addEventListener("click", ask);
  byId("stop").addEventListener("click", () => {
    fetch(`stop?job=${byId("stop").dataset.job}`, { method: "POST" });
    say("stopping");
  });
  byId("pin").addEventListener("click", () => {
    say("pinned: the next answers begin with their difference from this one");
    history.pushState(null, "", `?${query(view, question() || "kind=step")}`);
    asked = query(view, pinned());
    show();
  });
  byId("unpin").addEventListener("click", () => go(""));
  const launchFile = async () => {
    for await (const { kind, value } of lines(await fetch(`launch?${question()}`))) {
      if (kind !== "progress") return value; // without launch arguments, why there are none
    }
  };

  document.querySelectorAll("[data-copy]").forEach((button) => {
    button.addEventListener("click", async () => {
      const made = { link: () => location.href, "launch file": launchFile }[button.dataset.copy];
      const text = (made ? await made() : copies[button.dataset.copy]) || "";
      byId("copied").textContent = text;
      await navigator.clipboard?.writeText(text).catch(() => {});
      say(`copied as ${button.dataset.copy}`);
    });
  });
  addEventListener("popstate", () => location.reload());

  // On a narrow screen the answer comes first, once there is a question.
  if (location.search && matchMedia("(max-width: 62rem)").matches) byId("asking").open = false;
  show();
})();
