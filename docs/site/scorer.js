// How the search ranks pages: those whose title has the words of the question come first, and guides
// before what was measured, decided and changed. The other numbers are Sphinx's own.
var Scorer = {
  score: ([page, title, , , score]) => {
    const asked = new URLSearchParams(window.location.search).get("q") || "";
    const words = asked.toLowerCase().match(/[\p{L}\d_]+/gu) || [];
    const found = words.filter(
      (word) => !stopwords.has(word) && title.toLowerCase().includes(word.replace(/s$/, "")),
    );
    const [, of_folder] = Scorer.folders.find(([folder]) => page.startsWith(folder)) || [, 0];
    return score + 20 * found.length + of_folder;
  },
  folders: [
    ["how-to/", 12],
    ["tutorial/", 12],
    ["explanation/", 6],
    ["reference/glossary", 10],
    ["reference/components/", 0],
    ["reference/api/", -4],
    ["reference/", 6],
    ["index", 6],
    ["decisions/", -20],
    ["CHANGELOG", -20],
    ["CONTRIBUTING", -20],
    ["evidence/", -6],
  ],
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
