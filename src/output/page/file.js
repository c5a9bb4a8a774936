"use strict";
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const form = document.getElementById("filter");
const tables = all(".columns table");
// Rows that a table of the overview shows.
const ROWS = 8;
document.documentElement.classList.add("scripted");
form.hidden = false;

// The results with the values that a filter compares.
const results = all(".objects li[data-rule]").map((item) => {
  const details = item.closest("details");
  const object = details.parentElement;
  const name = all("summary > :not(.badges, .worst)", details).map((part) => part.textContent).join(" ");
  const { kind } = details.dataset;
  return { object, item, kind, text: (name + " " + item.textContent).toLowerCase(), ...item.dataset };
});
const controls = all("tr[data-control]").map((row) => ({ row, rules: row.dataset.rules.split(" ") }));

// Returns the number of different objects of results.
const objects = (some) => new Set(some.map(({ object, dependent }) => dependent ?? object)).size;
const violations = (some) => some.filter(({ result }) => ["fail", "warn"].includes(result));
const counted = (number, noun) => number + " " + noun + (number === 1 ? "" : "s");

// Returns the filters in force.
const filters = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));

// Returns whether a result matches the filters.
const matcher = ({ q = "", framework, rule, ...values }) => {
  const words = q.toLowerCase().split(/\s+/);
  const within = (control) => control === framework || control.startsWith(framework + ":");
  const serving = controls.filter(({ row }) => within(row.dataset.control)).flatMap(({ rules }) => rules);
  return (one) =>
    [
      Object.entries(values).every(([name, value]) => one[name] === value),
      rule === undefined || one.rule === rule || one.rule.startsWith(rule + "/"),
      framework === undefined || serving.includes(one.rule),
      words.every((word) => one.text.includes(word)),
    ].every(Boolean);
};

// Shows the results that match the filters, and their numbers everywhere.
const show = () => {
  const wanted = filters();
  const matches = matcher(wanted);
  const shown = results.filter((one) => {
    one.item.hidden = !matches(one);
    return !one.item.hidden;
  });
  const known = new Set(shown.map(({ object }) => object));
  for (const object of all(".objects > li")) object.hidden = !known.has(object);
  const names = Object.keys(wanted);
  // How many objects a rule applies to is known for all objects only.
  const partial = names.some((name) => !["rule", "framework"].includes(name));
  document.documentElement.classList.toggle("partial", partial);
  document.documentElement.classList.toggle("filtered", names.length > 0);
  count(shown, names.length > 0);
  for (const row of all("tr[data-exception]")) {
    row.hidden = ![undefined, row.dataset.exception.split("/")[0]].includes(wanted.namespace);
  }
};

// Writes the numbers of these results.
const count = (shown, filtered) => {
  const open = violations(shown);
  const numbers = [["fail", "failure"], ["warn", "warning"], ["error", "error"]].map(([word, noun]) => {
    const number = shown.filter(({ result }) => result === word).length;
    return number > 0 ? counted(number, noun) : "";
  });
  const failing = shown.filter(({ result }) => result !== "skip");
  const words = numbers.filter((text) => text !== "").join(", ");
  const text = words === "" ? "no violations" : words + " in " + counted(objects(failing), "object");
  for (const head of all(".headline")) {
    head.dataset.all ??= head.textContent;
    head.textContent = filtered ? text : head.dataset.all;
  }
  for (const list of all("ul.counts")) badges(list, open, "li");
  for (const bar of all(".bar svg")) stack(bar, open);
  for (const row of all("tr[data-namespace]")) {
    const own = shown.filter(({ namespace }) => namespace === row.dataset.namespace);
    row.hidden = filtered ? own.length === 0 : false;
    badges(row, violations(own), ".badge");
    write(row, "Excused", own.filter(({ result }) => result === "skip").length);
  }
  for (const row of all("tr[data-rule]")) {
    const own = shown.filter(({ rule }) => rule === row.dataset.rule);
    row.hidden = filtered ? own.length === 0 : false;
    write(row, "Failing", objects(violations(own)), "0");
    write(row, "Excused", own.filter(({ result }) => result === "skip").length);
  }
  const { framework = "", rule = "" } = filters();
  const within = ({ dataset }) => framework === "" || (dataset.control + ":").startsWith(framework + ":");
  for (const { row, rules } of controls) {
    const number = objects(open.filter(({ rule }) => rules.includes(rule)));
    const link = row.querySelector("[data-label='Failing objects'] a");
    if (link) link.textContent = number;
    row.hidden = !within(row);
  }
  const own = Map.groupBy(open, ({ object }) => object);
  for (const object of all(".objects > li")) badges(object, own.get(object) ?? [], ".badge[title]");
  for (const details of all("details.rule")) details.hidden = !["", details.dataset.rule].includes(rule);
  for (const details of all("details.framework")) {
    details.hidden = all("tr[data-control]", details).every((row) => row.hidden);
    if (framework !== "") details.open = !details.hidden;
  }
  for (const table of tables) {
    all("tbody tr", table).filter((row) => !row.hidden).forEach((row, at) => row.classList.toggle("more", at >= ROWS));
  }
};

// Writes numbers of violations into the badges of their severities, and hides those without any.
const badges = (inside, open, hidden) => {
  for (const badge of all(".badge", inside)) {
    const number = open.filter(({ severity }) => badge.classList.contains(severity)).length;
    if (!/^\d*$/.test(badge.textContent)) continue;
    badge.textContent = number;
    (badge.closest(hidden) ?? badge).hidden = number === 0;
  }
};
const write = (row, label, number, zero = "") => {
  const cell = row.querySelector(`[data-label="${label}"]`);
  if (cell) cell.textContent = number || zero;
};
const stack = (bar, open) => {
  let at = 0;
  for (const part of all("rect", bar)) {
    const number = open.filter(({ severity }) => part.classList.contains(severity)).length;
    part.setAttribute("x", at);
    part.setAttribute("width", number);
    at += number;
  }
  bar.setAttribute("viewBox", `0 0 ${at || 1} 1`);
};

// Goes to the view and the filters that the fragment of the URL names, and opens its object or rule.
const go = () => {
  const fragment = location.hash.slice(1);
  const query = new URLSearchParams(fragment);
  const view = query.has("object") ? "objects" : (query.get("view") ?? "overview");
  for (const field of all("[name]", form)) {
    const value = query.get(field.name) ?? "";
    const options = [...(field.options ?? [{ value }])];
    if (!options.some((option) => option.value === value)) field.add(new Option(value, value));
    field.value = value;
  }
  show();
  for (const section of all(".view")) section.classList.toggle("current", section.id === "view=" + view);
  for (const link of all("nav.views a")) link.removeAttribute("aria-current");
  tab(view)?.setAttribute("aria-current", "page");
  links();
  const target = document.getElementById(fragment);
  if (!target || target.matches(".view")) return scrollTo(0, 0);
  target.closest("details").open = true;
  target.closest("details").scrollIntoView();
};
const viewOf = (link) => new URLSearchParams(link.hash.slice(1)).get("view") ?? "overview";
const tab = (view) => all("nav.views a").find((link) => viewOf(link) === view);

// The links to other views keep the filters.
const links = () => {
  for (const link of all("nav.views a")) link.hash = new URLSearchParams({ view: viewOf(link), ...filters() });
};
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(applied));
const applied = () => {
  const current = document.querySelector(".view.current").id.replace("view=", "");
  history.replaceState(null, "", "#" + new URLSearchParams({ view: current, ...filters() }));
  show();
  links();
};
form.addEventListener("input", applied);
addEventListener("hashchange", go);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.matches("input, select")) return;
  event.preventDefault();
  form.elements.namedItem("q").focus();
});
go();

// Opens all details before printing, since they cannot be opened on paper.
addEventListener("beforeprint", () => {
  for (const one of all("details")) one.open = true;
});
