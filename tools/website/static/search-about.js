"use strict";
// Says below each result of the search what its page is about.  Sphinx would fetch the page for a
// summary, which no browser does for file://.
document.addEventListener("DOMContentLoaded", () => {
  const results = document.getElementById("search-results");
  if (!results || !window.kwireAbout) return;
  const explain = (item) => {
    const link = item.querySelector("a");
    const page = link && link.getAttribute("href").split("#")[0].replace(/\.html$/, "");
    const about = window.kwireAbout[page];
    if (!about) return;
    const line = document.createElement("p");
    line.className = "context";
    line.textContent = about;
    item.append(line);
  };
  new MutationObserver((changes) => {
    for (const change of changes) {
      for (const node of change.addedNodes) {
        if (node.nodeName === "LI") explain(node);
      }
    }
  }).observe(results, { childList: true, subtree: true });
});
