"use strict";
let wanted = false;
let busy = false;

// Puts the parts of the new page into this one; what is being read or typed stays.
const update = async () => {
  wanted = true;
  if (busy) return;
  busy = true;
  while (wanted) {
    wanted = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      // Whoever was signed in is asked again.
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      const opened = [...document.querySelectorAll("details[open] > summary")].map((one) => one.textContent);
      for (const summary of page.querySelectorAll("details > summary")) {
        if (opened.includes(summary.textContent)) summary.parentElement.open = true;
      }
      const [here, there] = [document, page].map((one) => one.querySelector("main"));
      const form = here.querySelector("#filter");
      if (form && form.contains(document.activeElement)) {
        there.querySelector("#filter")?.replaceWith(form);
      }
      const focused = document.activeElement;
      const href = focused && focused.getAttribute("href");
      here.replaceChildren(...there.childNodes);
      if (form && form.contains(focused)) focused.focus();
      else if (href) [...here.querySelectorAll("a")].find((link) => link.getAttribute("href") === href)?.focus();
      document.querySelector("header").replaceChildren(...page.querySelector("header").childNodes);
    } catch (error) {
      lost();
    }
  }
  busy = false;
};

const lost = () => {
  const live = document.getElementById("live");
  if (live) live.textContent = "Connection lost: what is here may be old";
};

// The server ends each connection after a while, and the browser opens another.
let losing;
const events = new EventSource("events");
events.addEventListener("open", () => {
  clearTimeout(losing);
  losing = undefined;
});
events.addEventListener("changed", update);
events.addEventListener("error", () => {
  losing ??= setTimeout(lost, 5000);
});
