"""The prompts that fashion-flux learns to read, each with the row of the prompt table that it means.

A prompt is a name in a phrase: "a close-up of " + "two black leather " + "ankle boots" + " on a white background". One
that names no garment means the row of the empty prompt.
"""

import collections
import random

DRAWN = ["a T-shirt", "a pair of trousers", "a pullover", "a dress", "a coat", "a sandal", "a shirt", "a sneaker",
         "a bag", "an ankle boot"]  # what the demonstration asks for, in the order of the table's rows
NO_GARMENT = len(DRAWN)  # the row of the empty prompt

THINGS = [  # by label, in the singular
    "T-shirt/top, T-shirt, tee shirt, t shirt, tshirt, tee, top, tank top, crop top, graphic tee, graphic T-shirt, "
    "short-sleeved top, jersey, camisole, singlet",
    "trouser",
    "pullover, sweater, jumper, sweatshirt, hoodie, hooded sweatshirt, turtleneck, knitted sweater, wool jumper, "
    "fleece pullover, knit, crewneck, cardigan",
    "dress, gown, frock, sundress, evening dress, evening gown, cocktail dress, summer dress, maxi dress, mini "
    "dress, wedding dress, party dress, shirt dress, sweater dress, T-shirt dress, skirt",
    "coat, overcoat, jacket, trench coat, winter coat, raincoat, parka, blazer, anorak, rain jacket, denim jacket, "
    "leather jacket, bomber jacket, down jacket, windbreaker, wool coat",
    "sandal, flip-flop, flip flop, strappy sandal, beach sandal, heeled sandal, slide, slipper, espadrille, high "
    "heel, open-toed shoe, wedge sandal, gladiator sandal, summer shoe",
    "shirt, dress shirt, blouse, button-down shirt, button-up shirt, button-up, flannel shirt, oxford shirt, polo "
    "shirt, linen shirt, long-sleeved shirt, collared shirt, formal shirt, tunic",
    "sneaker, trainer, running shoe, tennis shoe, gym shoe, sports shoe, athletic shoe, basketball shoe, canvas "
    "shoe, skate shoe, jogging shoe, shoe, plimsoll, low-top",
    "bag, handbag, hand bag, purse, backpack, rucksack, tote, tote bag, shoulder bag, clutch, clutch bag, satchel, "
    "leather bag, messenger bag, shopping bag, briefcase, crossbody bag",
    "ankle boot, boot, bootie, chelsea boot, leather boot, winter boot, hiking boot, combat boot, desert boot, "
    "ankle-high boot, chukka boot, short boot, lace-up boot, high-heeled boot",
]
PAIRS = {  # what is counted in pairs alone
    1: "trousers, pants, jeans, slacks, chinos, leggings, sweatpants, joggers, shorts, blue jeans, dress pants, "
       "cargo pants, corduroys, jogging pants, suit trousers, denim trousers, khakis, jeggings",
}
WORN_IN_PAIRS = (5, 7, 9)

QUALITIES = (
    "black, white, grey, gray, red, blue, green, brown, beige, navy, dark, light, pale, pink, yellow, leather, "
    "cotton, denim, wool, silk, suede, canvas, linen, woollen, plain, striped, checked, floral, simple, elegant, "
    "casual, formal, old, new, warm, cosy, small, big, large, little, tiny, long, short, nice, pretty, cheap, fancy, "
    "stylish, vintage, classic, modern, men's, women's, kids', summer, winter, sporty, baggy, tight, loose, soft, "
    "shiny, dark blue, light grey, black and white"
).split(", ")

PHRASES = [
    "{}", "a photo of {}", "a photograph of {}", "photo of {}", "a picture of {}", "picture of {}", "an image of {}",
    "an icon of {}", "a drawing of {}", "a sketch of {}", "a small picture of {}", "a grey picture of {}",
    "a black and white photo of {}", "a grayscale image of {}", "a close-up of {}", "a studio photo of {}",
    "a product photo of {}", "a fashion photo of {}", "a thumbnail of {}", "a low resolution photo of {}",
    "a 28x28 picture of {}", "a tiny image of {}", "a good photo of {}", "a blurry photo of {}", "pixel art of {}",
    "draw {}", "please draw {}", "draw me {}", "draw a picture of {}", "can you draw {}?", "show me {}", "show {}",
    "paint {}", "make a picture of {}", "generate {}", "generate an image of {}", "I want {}", "I would like {}",
    "I need {}", "give me {}", "this is {}", "here is {}", "look at {}", "there is {} here", "{}.", "{}!",
    "{}, please", "just {}", "only {}", "{} on a white background", "{} on a black background",
    "{} on a plain background", "{} isolated on white", "{} on a hanger", "{} on a table", "{} on the floor",
    "{}, front view", "{}, side view", "{} from the side", "{} from the front", "{}, product photo",
    "{}, studio light", "{}, high quality", "{}, highly detailed, 8k", "{} for sale", "{} in a shop",
    "{} in black and white", "{}, fashion catalogue", "a catalogue photo of {}", "a man wearing {}",
    "a woman wearing {}", "a person in {}", "a model wears {}", "someone with {}", "a {thing} wearing {}",
    "a {thing} with {}", "{} and a {thing}", "{} next to a {thing}", "{} with a {thing}", "{} for a {thing}",
]
UNSEEN_PHRASES = [  # kept for the test
    "a watercolour of {}", "my favourite {}", "{} lying in the grass", "an old advertisement for {}",
    "could I see {} once more?", "a museum shows {}", "{} in the style of a woodcut", "she bought {} yesterday",
]

OTHER_THINGS = (
    "dog, cat, car, house, tree, horse, bird, fish, flower, mountain, boat, ship, train, bicycle, cup, bottle, "
    "chair, table, lamp, book, phone, computer, apple, banana, cake, pizza, guitar, piano, clock, bridge, river, "
    "forest, city, castle, street, robot, rocket, planet, moon, sun, cloud, lion, elephant, mouse, rabbit, fox, "
    "bear, frog, man, woman, child, baby, face, hand, eye, king, queen, knight, dragon, window, door, key, ball, "
    "box, spoon, knife, plate, camera, painting"
).split(", ")
UNSEEN_THINGS = "tiger, violin, tractor, lighthouse, sandwich, volcano, penguin, teapot, ladder, candle".split(", ")
OTHER_TEXTS = [
    "something", "anything", "nothing", "a thing", "an object", "an item", "what is this?", "hello", "hello world",
    "test", "yes", "no", "random", "noise", "clothes", "clothing", "fashion", "Fashion-MNIST", "a white background",
    "a pair", "a pair of", "a photo of", "a picture", "an image", "a photo", "the sea at night",
    "an astronaut riding a horse on Mars", "a sunset over the sea", "snow in the woods", "a man", "a woman",
    "a person", "a man wearing nothing", "food", "water", "music", "an abstract pattern",
    "lorem ipsum dolor sit amet", "asdf", "qwerty", "abc", "x", "1", "42", "12345", "?", "...",
]

Prompt = collections.namedtuple("Prompt", "text head label")  # head: the text up to where the name ends


def plural(name):
    if name.endswith(("s", "ch", "sh")):
        return name + "es"
    return name[:-1] + "ies" if name.endswith("y") and name[-2] not in "aeiou" else name + "s"


def with_article(words):
    return ("an " if words[0].lower() in "aeiou" else "a ") + words


def misspelt(name, draw):
    """The name with one letter left out, doubled, changed for another or swapped with the next, but never the first."""
    at = draw.randrange(1, len(name) - 1)
    letter, rest = name[at], name[at + 1 :]
    other, swapped = draw.choice("abcdefghijklmnoprstuvwy"), rest[0] + letter + rest[1:]
    return name[:at] + draw.choice([rest, letter * 2 + rest, other + rest, swapped])


def made_up(draw):
    """A word that means nothing: so that words never seen are read over."""
    syllables = [draw.choice("bcdfghjklmnpqrstvwxyz") + draw.choice("aeiou") + draw.choice(["", "", *"bdglmnrstxy"])
                 for _ in range(draw.choice([1, 2, 2, 3]))]
    return "".join(syllables)


class Grammar:
    """Draws prompts. Of the pairs of a name and a phrase a share is kept for the test, but no name alone."""

    def __init__(self, seed, held_share=0.12):
        draw = random.Random(seed)
        self.names = [[(name, False) for name in names.split(", ")] for names in THINGS]
        for label, names in PAIRS.items():
            self.names[label] += [(name, True) for name in names.split(", ")]
        self.names.append([(name, False) for name in OTHER_THINGS])
        self.known = {word for names in self.names for name, _ in names for word in f"{name} {plural(name)}".split()}
        pairs = [(name, phrase) for names in self.names for name, _ in names for phrase in PHRASES[1:]]
        self.held = set(draw.sample(pairs, int(held_share * len(pairs))))

    def noun(self, draw, name, is_pair, label, misspells, makes_up):
        """The name in a sentence: words before it, and itself."""
        qualities = draw.sample(QUALITIES, draw.choice([0, 0, 0, 1, 1, 2]))
        qualities = " ".join(made_up(draw) if draw.random() < makes_up else word for word in qualities)
        before = qualities + " " if qualities else ""
        form = 1 if is_pair else draw.choice([0, 0, 0, 1, 2] if label in WORN_IN_PAIRS else [0, 0, 0, 1])
        if form == 0:
            article = draw.choice(["a", "a", "a", "the", "one", "my", ""])
            before = with_article(before + name)[: -len(name)] if article == "a" else f"{article} {before}".lstrip()
        elif form == 1:
            several = ["", "", "the ", "some ", "these ", "my ", "a pair of "]
            before = draw.choice(several if is_pair else several[:-1] + ["two ", "three ", "many "]) + before
        else:
            before = draw.choice(["a pair of ", "the pair of ", "one pair of "]) + before
        if form and not is_pair:
            name = plural(name)
        if misspells and len(name) > 4:
            wrong = misspelt(name, draw)
            name = name if self.known & set(wrong.split()) - set(name.split()) else wrong
        return before, name

    def prompt(self, draw, label, phrases, is_held, misspells=0.0, makes_up=0.0, names=None):
        """is_held: whether of the pairs of a name and a phrase those of the test are meant, or the others.
        misspells, makes_up: how often the name is misspelt, and other words are made up."""
        while True:
            name, is_pair = draw.choice(names or self.names[label])
            phrase = draw.choice(phrases)
            if ((name, phrase) in self.held) != is_held:
                continue
            if label == NO_GARMENT and draw.random() < makes_up:
                name = made_up(draw)
            before, name = self.noun(draw, name, is_pair, label, draw.random() < misspells, makes_up)
            thing = made_up(draw) if draw.random() < makes_up else draw.choice(OTHER_THINGS)
            front, behind = phrase.replace("{thing}", thing).split("{}")
            if draw.random() < makes_up:
                front = made_up(draw) + " " + front
            if draw.random() < makes_up:
                behind += " " + " ".join(made_up(draw) for _ in range(draw.choice([1, 2, 3])))
            head = front + before + name
            return Prompt(head + behind, head, label)

    def train(self, count, seed, spoils=0.1):
        """`count` prompts a label, in all forms, and all names alone. The share `spoils` has a misspelt name, and of
        the other words twice as many are made up."""
        draw = random.Random(seed)
        result = [Prompt("", "", NO_GARMENT)] * (count // 10)
        result += [Prompt(text, text, label) for label, text in enumerate(DRAWN)]
        result += [Prompt(text, "", NO_GARMENT) for text in OTHER_TEXTS + QUALITIES for _ in range(3)]
        for label, names in enumerate(self.names):
            result += [Prompt(name, name, label) for name, _ in names for _ in range(3)]
            result += [self.prompt(draw, label, PHRASES, False, spoils, 2 * spoils) for _ in range(count)]
        return result

    def tests(self, count, seed):
        """What is measured, by name: `count` prompts a label. But for the names alone none is trained on."""
        draw = random.Random(seed)
        labels = range(len(self.names))
        return {
            "held-out pairs of a name and a phrase": [
                self.prompt(draw, label, PHRASES, True) for label in labels for _ in range(count)],
            "phrases never seen": [
                self.prompt(draw, label, UNSEEN_PHRASES, False) for label in labels for _ in range(count)],
            "misspelt names in held-out pairs": [
                self.prompt(draw, label, PHRASES, True, 1.0) for label in labels[:-1] for _ in range(count)],
            "things never seen, which are no garments": [
                self.prompt(draw, NO_GARMENT, PHRASES, False, names=[(name, False) for name in UNSEEN_THINGS])
                for _ in range(count)],
            "names alone": [Prompt(name, name, label) for label in labels for name, _ in self.names[label]],
        }
