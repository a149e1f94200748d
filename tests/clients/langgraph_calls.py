"""langgraph's agent and a graph of messages over the server. usage: langgraph_calls.py URL"""
import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return "wet in " + city


def model(**fields):
    return ChatOpenAI(base_url=sys.argv[1] + "/v1", api_key="key", model="demo", temperature=0,
                      max_retries=0, timeout=60, max_tokens=60, **fields)


def remembers():
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model().invoke(state["messages"])]})
    graph.add_edge(START, "model")
    app = graph.compile(checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "a"}}
    assert app.invoke({"messages": [("user", "2+3=")]}, thread)["messages"][-1].content == "5"
    said = app.invoke({"messages": [("user", "4+4=")]}, thread)["messages"]
    assert len(said) == 4 and said[-1].content == "8"


def calls():
    forced = model(model_kwargs={"parallel_tool_calls": False}).bind_tools(
        [weather], tool_choice="weather")
    answers = iter([forced, model()])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [next(answers).invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([weather]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    said = graph.compile().invoke({"messages": [("user", "Weather?")]})["messages"]
    assert [m.type for m in said] == ["human", "ai", "tool", "ai"], said
    assert said[2].content.startswith("wet in ")


def streams():
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model().invoke(state["messages"])]})
    graph.add_edge(START, "model")
    said = "".join(chunk.content for chunk, _ in graph.compile().stream(
        {"messages": [("user", "2+3=")]}, stream_mode="messages"))
    assert said == "5", said


for test in remembers, calls, streams:
    test()
    print("ok", test.__name__)
