"""The activity screen: what operators did, beside what failed, started, stopped or was recovered by itself."""
