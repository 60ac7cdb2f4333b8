// Ranks the results of a search whose words are on many pages: gradient boosting first, as most
// parameters are its own, then the guide, other estimators, functions, and what is not for users.
var PLACES = [
  [/^api\/generated\/gpuens\.GradientBoosting(Classifier|Regressor)$/, 6],
  [/^(quick_start|guide\/boosting)$/, 5],
  [/^guide\//, 4],
  [/^api\/generated\/gpuens\.[A-Z]/, 3],
  [/^api\//, 2],
  [/^(changelog|internals\/)/, -2],
];
var Scorer = {
  score: ([page, , , , score]) => score + (PLACES.find(([place]) => place.test(page))?.[1] ?? 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
