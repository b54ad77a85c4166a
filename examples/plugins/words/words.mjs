// A plugin in JavaScript: functions of ctx are promises, and arguments come by name.

/** Count the words of a text, and add them to those of earlier texts. */
export async function count(ctx, { text }) {
  const seen = (await ctx.storage.get("seen")) ?? {};
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? [];
  for (const word of words) seen[word] = (seen[word] ?? 0) + 1;
  await ctx.storage.put("seen", seen);
  return { words: words.length, different: new Set(words).size };
}

/** The words that came up most often in all texts, the most frequent first. */
export async function most_used(ctx, { most = 5 }) {
  const seen = (await ctx.storage.get("seen")) ?? {};
  return Object.entries(seen)
    .sort(([a, many], [b, more]) => more - many || a.localeCompare(b))
    .slice(0, most);
}
