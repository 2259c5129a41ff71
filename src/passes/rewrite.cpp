#include "passes/rewrite.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace headroom {

namespace {

/// Whether `value` may be read anywhere later in `region`: it is not a state updated by a region in between, after
/// which it must not be read.
bool stays_readable(const Graph& graph, ValueId value, RegionId region) {
  return std::ranges::all_of(graph.state_updates(), [&](const StateUpdate& update) {
    return update.value != value || is_within(graph, region, update.region);
  });
}

}  // namespace

Rewriter::Rewriter(Graph& graph)
    : graph_(graph), memory_(graph.nodes().size() * sizeof(Entry) + graph.value_count() * 2 * sizeof(Entry*)) {
  links_.reserve(graph_.value_count());
  add_links();
  for (const ValueId param : graph_.values_of(ValueKind::kParam)) links(param).is_weight = true;
  for (const ValueId read : reads_outside_nodes(graph_)) ++links(read).reads_from_outside;

  front_end_ = shown_ = schedule_.end();
  for (Node& node : graph_.take_nodes()) {
    const bool reads_weights = std::ranges::all_of(node.inputs, [&](ValueId input) { return is_weight(input); });
    const bool at_start = reads_weights && node.region == kTopRegion && front_end_ == schedule_.end();
    const Place place = insert(schedule_.end(), std::move(node), schedule_.size() + 1, at_start);
    if (!at_start && front_end_ == schedule_.end()) front_end_ = place;
  }
}

void Rewriter::add_links() {
  while (links_.size() < graph_.value_count()) links_.emplace_back(memory_);
}

Rewriter::Place Rewriter::insert(Place before, Node node, std::size_t turn, bool is_weight) {
  const Place place = schedule_.insert(before, Entry{std::move(node), turn});
  for (const ValueId input : place->node.inputs) links(input).readers.push_back(&*place);
  for (const ValueId result : place->node.results) {
    links(result).producer = &*place;
    links(result).is_weight = is_weight;
  }
  return place;
}

const Node* Rewriter::match(ValueId value, Op op) const {
  HR_CHECK(shown_ != schedule_.end());
  const Entry* producer = links(value).producer;
  if (producer == nullptr || producer->node.op != op || producer->node.region != shown_->node.region) return nullptr;
  const Node& node = producer->node;
  const auto stays = [&](ValueId input) { return stays_readable(graph_, input, node.region); };
  return std::ranges::all_of(node.inputs, stays) ? &node : nullptr;
}

const Node* Rewriter::match_single_use(ValueId value, Op op) const {
  return links(value).readers.size() + links(value).reads_from_outside == 1 ? match(value, op) : nullptr;
}

const Node* Rewriter::single_use_producer(ValueId value) const {
  const Entry* const producer = links(value).producer;
  return producer != nullptr ? match_single_use(value, producer->node.op) : nullptr;
}

std::vector<const Node*> Rewriter::readers_from_here(ValueId value) const {
  HR_CHECK(shown_ != schedule_.end());
  std::vector<Entry*> entries(links(value).readers.begin(), links(value).readers.end());
  std::erase_if(entries, [&](const Entry* entry) { return entry->turn < shown_->turn; });
  std::ranges::sort(entries, {}, &Entry::turn);
  const auto repeated = std::ranges::unique(entries);
  entries.erase(repeated.begin(), repeated.end());
  std::vector<const Node*> readers;
  for (const Entry* entry : entries) readers.push_back(&entry->node);
  return readers;
}

bool Rewriter::is_read_before_here(ValueId value) const {
  HR_CHECK(shown_ != schedule_.end());
  for (RegionId region = kTopRegion; index_of(region) < graph_.regions().size(); ++region) {
    if (is_within(graph_, shown_->node.region, region)) continue;  // it ends later
    for (const bool ran : {true, false})
      for (const Assignment& assignment : assignments_at_end(graph_, region, ran))
        if (assignment.from == value) return true;
  }
  return std::ranges::any_of(links(value).readers, [&](const Entry* entry) { return entry->turn < shown_->turn; });
}

const Node* Rewriter::weight_producer(ValueId weight) const {
  HR_CHECK(is_weight(weight));
  const Entry* producer = links(weight).producer;
  return producer == nullptr ? nullptr : &producer->node;
}

ValueId Rewriter::emit(Op op, std::vector<ValueId> inputs, NamedAttributes attributes, const std::string& path) {
  return emit_all(op, std::move(inputs), std::move(attributes), path).front();
}

std::vector<ValueId> Rewriter::emit_all(Op op, std::vector<ValueId> inputs, NamedAttributes attributes,
                                        const std::string& path) {
  return schedule(op, std::move(inputs), Attributes(op, std::move(attributes)), path).results;
}

ValueId Rewriter::emit_like(const Node& node, std::vector<ValueId> inputs, Attributes attributes) {
  return schedule(node.op, std::move(inputs), std::move(attributes), node.path).results.front();
}

ValueId Rewriter::emit_with(const Node& node, std::initializer_list<Operand> operands) {
  std::vector<ValueId> inputs = node.inputs;
  for (const auto& [role, value] : operands) {
    const std::size_t position = position_of(node.op, role);
    HR_CHECK_LE(position, inputs.size());
    if (position == inputs.size()) inputs.push_back(value);
    inputs[position] = value;
  }
  return emit_like(node, std::move(inputs), node.attributes);
}

const Node& Rewriter::schedule(Op op, std::vector<ValueId> inputs, Attributes attributes, const std::string& path) {
  HR_CHECK(shown_ != schedule_.end());
  const bool at_start = std::ranges::all_of(inputs, [&](ValueId input) { return is_weight(input); });
  const RegionId region = at_start ? kTopRegion : shown_->node.region;
  Node node = graph_.make_node(op, std::move(inputs), std::move(attributes), path, region);
  add_links();

  const bool shown_at_start = is_weight(shown_->node.results.front());
  const Place place = insert(at_start && !shown_at_start ? front_end_ : shown_, std::move(node), 0, at_start);
  if (!at_start && front_end_ == shown_) front_end_ = place;
  return place->node;
}

void Rewriter::replace(ValueId from, ValueId to) {
  HR_CHECK(from != to);
  HR_CHECK(type(from) == type(to));
  graph_.replace_uses(from, to);  // by readers that are not nodes; the schedule is here
  links(to).reads_from_outside += std::exchange(links(from).reads_from_outside, 0);
  for (Entry* reader : std::exchange(links(from).readers, std::pmr::vector<Entry*>(&memory_))) {
    *std::ranges::find(reader->node.inputs, from) = to;
    links(to).readers.push_back(reader);
  }
  if (links(from).producer != nullptr) drop_if_unread(*links(from).producer);
}

void Rewriter::drop_if_unread(Entry& entry) {
  const auto is_read = [&](ValueId value) {
    return !links(value).readers.empty() || links(value).reads_from_outside > 0;
  };
  if (entry.dropped || std::ranges::any_of(entry.node.results, is_read)) return;
  entry.dropped = true;
  for (const ValueId input : entry.node.inputs) {
    std::erase(links(input).readers, &entry);
    if (links(input).producer != nullptr) drop_if_unread(*links(input).producer);
  }
}

int Rewriter::run(const std::function<bool(Rewriter&, const Node&)>& rewrite) {
  int rewrites = 0;
  for (shown_ = schedule_.begin(); shown_ != schedule_.end(); ++shown_) {
    if (!shown_->dropped && rewrite(*this, shown_->node)) ++rewrites;
  }
  std::vector<Node> nodes;
  nodes.reserve(schedule_.size());
  for (Entry& entry : schedule_) {
    if (!entry.dropped) nodes.push_back(std::move(entry.node));
  }
  graph_.set_nodes(std::move(nodes));
  return rewrites;
}

int rewrite_each(Graph& graph, const std::function<bool(Rewriter&, const Node&)>& rewrite) {
  return Rewriter(graph).run(rewrite);
}

void rewrite_region(Graph& graph, RegionId region, const RewriteRegion& rewrite) {
  const auto is_inside = [&](const Node& node) { return is_within(graph, node.region, region); };
  std::vector<Node> nodes = graph.take_nodes();
  const auto first = std::ranges::find_if(nodes, is_inside);
  const auto last = std::find_if_not(first, nodes.end(), is_inside);
  std::vector<Node> inside(first, last);
  std::vector<Node> schedule = rewrite({nodes.begin(), first}, inside);
  schedule.insert(schedule.begin(), nodes.begin(), first);
  schedule.insert(schedule.end(), inside.begin(), inside.end());
  schedule.insert(schedule.end(), last, nodes.end());
  graph.set_nodes(std::move(schedule));
}

}  // namespace headroom
