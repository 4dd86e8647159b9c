"use strict";
// Sphinx's scores, but a page whose title has the words comes first, and a page for those who change
// kwire after those for users.
var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    const words = new URLSearchParams(window.location.search).get("q") || "";
    const isInside = /^(decisions\/|changes\/|changelog|contributing|kafka-releases)/.test(docname);
    const isNamed = title.toLowerCase().includes(words.trim().toLowerCase());
    return score + (isNamed ? 20 : 0) - (isInside ? 12 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
