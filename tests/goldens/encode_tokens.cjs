// encode_tokens.cjs TOKENIZER_JSON STRINGS_JSON: prints the ids of each string, an array in JSON, as the library `tokenizers` has
// them. NODE_PATH names the folder in which `npm install tokenizers@0.23.2` put it.
const fs = require('fs');
const { Tokenizer } = require('tokenizers');

(async () => {
  const tokenizer = Tokenizer.fromString(fs.readFileSync(process.argv[2], 'utf8'));
  const ids = [];
  for (const text of JSON.parse(fs.readFileSync(process.argv[3], 'utf8'))) {
    ids.push((await tokenizer.encode(text)).getIds());
  }
  console.log(JSON.stringify(ids));
})();
