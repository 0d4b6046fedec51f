// How the search of the site ranks: pages and headings that hold the phrase first, the API behind other pages.
// docs/check_search.py ranks by the same weights.
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) =>
    score + (kind === "title" ? 10 : 0) - (docname.startsWith("api/") ? 6 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
